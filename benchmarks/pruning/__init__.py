"""Benchmarks of pruning strategies and of retention: `python -m benchmarks.pruning --help`."""
