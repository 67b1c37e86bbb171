"""PostgreSQL beside SQLite: the same memories on both, asked in turns."""
