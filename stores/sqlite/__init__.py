"""The journal in SQLite, and its full-text index."""
