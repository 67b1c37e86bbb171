"""AgentMemory: named values, observations and failed approaches."""
