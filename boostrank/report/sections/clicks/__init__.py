"""Click data: propensities, exposure, what it changes against counts, and what clicks say of two rankers."""
