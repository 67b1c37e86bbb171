"""Recall against token budget: `python -m benchmarks.recall --help`."""
