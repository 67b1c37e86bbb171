"""WorkingMemory: the history of one task."""
