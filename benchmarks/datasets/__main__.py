"""`python -m benchmarks.datasets`."""

from __future__ import annotations

from benchmarks.datasets.run import main

if __name__ == "__main__":
    main()
