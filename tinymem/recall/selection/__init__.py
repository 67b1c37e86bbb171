"""Selection among ranked passages: what is corrected, repeated or said anew since, and what a token budget holds."""
