"""From fired rules to a decision: rulings, evaluations, decisions and their explanations."""
