"""Processes beside the API: the writers, and the scheduled duties."""
