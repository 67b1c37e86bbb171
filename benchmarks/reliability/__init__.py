"""Kills, damage, many processes, forgetting and hostile input."""
