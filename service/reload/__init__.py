"""Where rules come from while the service runs, and who signed them."""
