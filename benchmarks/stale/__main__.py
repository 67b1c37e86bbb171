"""`python -m benchmarks.stale`."""

from __future__ import annotations

from benchmarks.stale.run import main

if __name__ == "__main__":
    main()
