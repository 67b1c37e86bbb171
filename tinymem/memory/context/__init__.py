"""Contexts: what is in a prompt, in which order, and where each message comes from."""
