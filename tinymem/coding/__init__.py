"""Coding agents: lines of files that stand there no more, and failures of commands that passed later."""
