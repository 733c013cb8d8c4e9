"""What callers send, read into documents: bodies, forms, queries."""
