"""Ranking data: the data set, its readers and generator, and tools for files."""
