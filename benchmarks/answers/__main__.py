"""`python -m benchmarks.answers`."""

from __future__ import annotations

from benchmarks.answers.run import main

if __name__ == "__main__":
    main()
