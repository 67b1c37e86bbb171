"""Reports and pictures of a memory, for people; its newest steps and single ones, for agents."""
