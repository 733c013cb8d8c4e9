"""Run alembic on the store's open connection, in whose transaction everything happens."""

from alembic import context

from service.log.schema import VERSIONS

context.configure(connection=context.config.attributes["connection"], version_table=VERSIONS, transactional_ddl=False)
context.run_migrations()
