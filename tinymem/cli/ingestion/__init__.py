"""Ingestion of recorded conversations and agent runs into a memory."""
