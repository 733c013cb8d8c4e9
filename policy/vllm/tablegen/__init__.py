"""Makes the model tables: reads vLLM's and Transformers' sources as text and never runs them.

Nothing here is needed to decide; `policy.intake.model.tables` reads what was made.
"""
