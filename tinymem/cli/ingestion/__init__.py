"""Ingestion: recorded conversations and agent runs, read and added to a memory."""
