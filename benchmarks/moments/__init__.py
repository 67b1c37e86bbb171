"""What a prompt gets from a memory: what it needs, and nothing where it needs nothing."""
