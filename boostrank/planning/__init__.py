"""Plans: a sample of the files, the cost of each route, and the one to take."""
