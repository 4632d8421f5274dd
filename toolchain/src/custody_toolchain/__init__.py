"""Join a tool's execution to what the model was really given.

Each module is usable alone and owns nothing of the runtime's. Importing this package imports none of them.
"""
