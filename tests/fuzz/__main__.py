"""Fuzzes one target with atheris, for as long as libFuzzer is told to:

    pip install atheris
    python tests/fuzz readers -max_total_time=300

What it finds ends the run with a traceback, and stays in a file `crash-...` in the current folder; `python tests/fuzz
readers crash-...` runs it again. Findings get a test in tests/reliability/test_fuzz.py.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def main() -> None:
    """Fuzz the target that the first argument names."""
    atheris = import_module("atheris")  # no dependency of the tests, which run the same targets with hypothesis
    with atheris.instrument_imports(include=["tinymem"]):
        targets = import_module("targets").TARGETS
    if len(sys.argv) < 2 or sys.argv[1] not in targets:
        sys.exit(f"usage: python tests/fuzz TARGET [options of libFuzzer]; TARGET is one of {', '.join(targets)}")
    atheris.Setup([sys.argv[0], *sys.argv[2:]], targets[sys.argv[1]])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
