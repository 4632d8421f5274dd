"""Checks that share no code with the service: standard library and a database driver only."""
