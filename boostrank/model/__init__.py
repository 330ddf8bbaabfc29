"""Models: scores, files and provenance. Nothing here trains."""
