"""Sources of rules, signatures of commits, and reloading while the service runs."""
