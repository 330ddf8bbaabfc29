"""Shapes: accumulated local effects and interactions of features."""
