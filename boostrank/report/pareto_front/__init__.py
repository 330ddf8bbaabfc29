"""Pareto front of two goals: mixes of their gains, each trained, each measured by both."""
