"""Targets for fuzzing: run by tests/test_fuzz.py with hypothesis, and by `python tests/fuzz TARGET` with atheris."""
