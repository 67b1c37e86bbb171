"""The weights of recall, fitted on data."""
