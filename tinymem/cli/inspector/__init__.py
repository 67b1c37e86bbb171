"""The inspector: a page that shows a memory in a browser, served on this machine or written to a file."""
