"""Access control: tokens and scopes, requests of web pages, trusted proxies."""
