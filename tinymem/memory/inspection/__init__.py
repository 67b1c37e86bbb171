"""Reports and pictures of a memory, for people."""
