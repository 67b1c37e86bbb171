"""`python -m benchmarks.pruning`."""

from __future__ import annotations

from benchmarks.pruning.run import main

if __name__ == "__main__":
    main()
