"""The table of decisions."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the table; its key is in chronological order, so it needs no other index."""
    op.create_table(
        "decisions",
        sa.Column("decision_id", sa.Uuid(as_uuid=False), primary_key=True),
        sa.Column("requested_by", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("runner", sa.String(2)),
        sa.Column("outcome", sa.Text),
        sa.Column("starts", sa.Boolean, nullable=False),
        sa.Column("vllm_version", sa.Text, nullable=False),
        sa.Column("revision", sa.Text, nullable=False),
        sa.Column("nanoseconds", sa.BigInteger, nullable=False),
        sa.Column("erased", sa.Boolean, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("input", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
    )
