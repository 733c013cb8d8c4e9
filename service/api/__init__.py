"""The endpoints: those that decide, and those that read."""
