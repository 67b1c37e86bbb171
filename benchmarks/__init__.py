"""Benchmarks of tinymem: `python -m benchmarks.recall --help`."""
