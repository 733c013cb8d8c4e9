"""Make the model tables from vLLM's and Transformers' sources, which are read as text and never run.

No decision needs this package; `policy.intake.model.tables` reads the tables it made.
"""
