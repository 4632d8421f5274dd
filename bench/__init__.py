"""Measurements of the whole service, each against a rival that runs in the same minute on the same machine."""
