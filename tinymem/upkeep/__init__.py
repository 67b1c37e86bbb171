"""Upkeep: forget, keep within limits, embed again, examine, repair, export and import a memory."""
