"""Targets for fuzzing: tests/reliability/test_fuzz.py has hypothesis run them, `python tests/fuzz` atheris."""
