# What one does daily. `just` lists them.

_list:
    @just --list --unsorted

# Run the tests, or those of one place: just test tests/recall
test *ARGS:
    pytest -n auto {{ARGS}}

# Lint, types, and the order of the packages
check:
    ruff check .
    ruff format --check .
    mypy
    lint-imports

# Put the code into the house's format
fmt:
    ruff check --fix .
    ruff format .

# Measure recall on the small sample; with --data PATH on your own
bench *ARGS:
    python -m benchmarks.recall {{ARGS}}

# Run real clients (Claude Code, Codex, Gemini CLI, Qwen Code, ...) against an API that was made up; npm installs them
clients FOLDER=".clients":
    .ci/clients {{FOLDER}}

# Try the inspector's page in this machine's Chromium
browser:
    .ci/browser

# Let CI install newer releases
constraints:
    .ci/constraints

# Try every adapter with the newest release of its framework, in a new environment
frameworks FOLDER=".frameworks":
    .ci/frameworks {{FOLDER}}

# Everything that CI checks, on the commit that is checked out
ci:
    .ci/run
