"""What an engine did, read from its startup log, beside what was decided for it."""
