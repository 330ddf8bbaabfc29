"""Models, with their scores, files and provenance."""
