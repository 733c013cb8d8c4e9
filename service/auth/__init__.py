"""Access control: tokens and scopes, requests from web pages, trusted proxies."""
