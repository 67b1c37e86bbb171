"""The memories of asyncio programs."""
