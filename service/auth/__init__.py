"""Who may ask: tokens and scopes, browsers, proxies."""
