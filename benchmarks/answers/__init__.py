"""Answers of a language model from what each memory brings back: benchmarks/tables/answers.md has the tables."""
