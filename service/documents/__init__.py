"""The bytes that callers send to documents: bodies, forms, queries."""
