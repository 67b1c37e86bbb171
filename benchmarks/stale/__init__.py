"""The share of recalled text that holds no more: lines of files that were edited since, and facts that changed."""
