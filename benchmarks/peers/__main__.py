"""`python -m benchmarks.peers`."""

from __future__ import annotations

from benchmarks.peers.run import main

if __name__ == "__main__":
    main()
