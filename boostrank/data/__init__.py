"""Ranking data: data sets, readers, a generator, and file tools."""
