"""ConversationMemory: the messages of all tasks, each under a short id."""
