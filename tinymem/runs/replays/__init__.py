"""Recorded runs again, call by call: what each way to prune would have cost, and what stayed in sight."""
