"""The common request decoded, and its decision encoded, faster than the plain path does; every result is the same."""
