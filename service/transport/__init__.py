"""Connections, TLS, timeouts, and the sockets that listen."""
