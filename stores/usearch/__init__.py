"""The vector store in a file of usearch."""
