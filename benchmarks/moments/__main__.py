"""`python -m benchmarks.moments`."""

from __future__ import annotations

from benchmarks.moments.run import main

if __name__ == "__main__":
    main()
