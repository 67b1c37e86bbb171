"""Reports and pictures of a memory, for people, and its newest steps, for agents."""
