"""Examination of a memory on disk: what `doctor` looks at, and what it finds."""
