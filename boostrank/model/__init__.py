"""Models: scoring, files, what they say of themselves. Nothing here trains."""
