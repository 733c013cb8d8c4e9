"""A request to an engine → whether its runner takes it."""
