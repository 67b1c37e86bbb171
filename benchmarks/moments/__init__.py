"""Prompts at the moment of use: they get what they need, or nothing where they need nothing."""
