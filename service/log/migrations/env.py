"""Run alembic in the transaction of the store's open connection."""

from alembic import context

from service.log.schema import VERSIONS

context.configure(connection=context.config.attributes["connection"], version_table=VERSIONS, transactional_ddl=False)
context.run_migrations()
