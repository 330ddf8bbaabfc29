"""Nouns that everybody shares. Standard library and NumPy only."""
