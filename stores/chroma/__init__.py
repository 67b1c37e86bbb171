"""The vector store in Chroma."""
