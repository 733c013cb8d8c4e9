"""The endpoints: those that decide, those that show."""
