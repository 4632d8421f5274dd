"""The demonstration: a research agent posts over HTTP, a reviewer reads back, and a table says what became of it all.

It speaks HTTP only and imports nothing of the service, so that it shows what any runtime could do.
"""
