"""What several releases would do with deployments, and what changes from one to the next."""
