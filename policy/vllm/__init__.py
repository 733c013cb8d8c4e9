"""What reads vLLM's own releases; no request comes here."""
