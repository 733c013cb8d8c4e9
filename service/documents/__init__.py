"""Reading of request bodies, forms and query strings."""
