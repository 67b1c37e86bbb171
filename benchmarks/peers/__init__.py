"""Other memories on the same data: `python -m benchmarks.peers --help`."""
