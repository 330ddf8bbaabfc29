"""Ranking data: the libsvm reader, the data set, the generator."""
