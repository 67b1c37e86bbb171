"""Indexing: a background thread gives the vector store what the journal has."""
