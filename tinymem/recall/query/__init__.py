"""Analysis of a question: its terms, the dates that it names, and identifiers."""
