"""Verdict: how good a ranker is beside rankings that cost nothing."""
