"""ConversationMemory: every message under a short id."""
