"""The decision log: every decision, with what was asked and what was answered, kept for whoever has to explain it later."""
