"""The journal in PostgreSQL, shared by any number of hosts."""
