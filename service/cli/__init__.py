"""The whole command line: what `policy` has, and `serve`, `health`, `log` and `token`."""
