"""Past decisions decided again, under other rules or by another release."""
