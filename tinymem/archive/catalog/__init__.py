"""The catalog of all passages as files that every process maps: its columns, their state, and how both follow."""
