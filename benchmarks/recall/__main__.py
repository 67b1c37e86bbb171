"""`python -m benchmarks.recall`."""

from __future__ import annotations

from benchmarks.recall.run import main

if __name__ == "__main__":
    main()
