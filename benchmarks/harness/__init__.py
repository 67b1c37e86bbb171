"""Data, scoring, summaries and documents, as all benchmarks share them."""
