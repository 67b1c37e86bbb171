"""What stays in a window, and what retention keeps: `python -m benchmarks.pruning --help`."""
