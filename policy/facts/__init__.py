"""Every fact that a rule may read, and one deployment's facts as a typed row."""
