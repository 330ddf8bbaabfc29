"""Compiled parser of libsvm text with query ids."""
