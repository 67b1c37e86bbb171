"""Recorded runs of agents and conversations: read from files, added to a memory."""
