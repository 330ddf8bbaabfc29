"""Faults and bad input: the list of what must happen (`cases.md`), and which tests hold it."""
