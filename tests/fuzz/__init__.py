"""Targets for fuzzing, which tests/reliability/test_fuzz.py runs with hypothesis, and `python tests/fuzz` with atheris."""
