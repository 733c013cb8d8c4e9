"""The facts that rules may read, and one deployment's facts as a typed row."""
