"""The HTTP interface: who may call what, what came in, what goes out. What is decided is decided below."""
