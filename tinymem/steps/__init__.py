"""Steps: what happened, as typed, immutable events."""
