"""How alembic gets at the store: by the connection that was opened, in whose transaction everything happens."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
