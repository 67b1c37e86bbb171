"""The memories that people open."""
