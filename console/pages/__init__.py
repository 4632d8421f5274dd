"""One module a page, or a group of them; each has a `router` that console/app.py lists."""
