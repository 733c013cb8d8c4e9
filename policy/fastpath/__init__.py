"""Decode common requests and encode their decisions faster than the general path, with the same results."""
