"""Adapters to frameworks, each against the real framework."""
