"""Chat messages: from steps and back, in the form that the APIs accept, and their tokens."""
