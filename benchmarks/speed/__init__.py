"""Time, memory and bytes: `python -m benchmarks.speed --help`."""
