"""The server: its tables, connections to it, transactions, and values on the way there and back."""
