"""`python -m benchmarks.speed`."""

from __future__ import annotations

from benchmarks.speed.run import main

if __name__ == "__main__":
    main()
