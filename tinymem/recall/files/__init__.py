"""Versions of files: what the calls of an agent did to them, and which lines stand there no more."""
