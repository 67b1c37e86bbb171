"""The archive: what is on disk, and the window that is kept there."""
