"""Smooth ranks: by sigmoids, hinges, Gaussian contests and margins."""
