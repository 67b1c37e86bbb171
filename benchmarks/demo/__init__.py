"""The script of the recorded run (`*.sh`, chapter by chapter) and the material that it starts from."""
