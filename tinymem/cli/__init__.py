"""The command `tinymem`."""
