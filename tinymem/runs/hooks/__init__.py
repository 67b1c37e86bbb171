"""Hooks of coding agents: what a session begins with, what a prompt recalls, and the transcript that a turn leaves."""
