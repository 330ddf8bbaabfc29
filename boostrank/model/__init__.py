"""Models: scores, files and provenance."""
