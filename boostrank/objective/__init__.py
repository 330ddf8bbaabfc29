"""Objectives with their parameters: description, binding to data, mixtures, a user's own file."""

from boostrank.core.deprecation import renamed

_MOVED = "Objective TrainingObjective objective_constructor parse_value plain_values queries_of_native value_at"
__getattr__ = renamed(__name__, dict.fromkeys(_MOVED.split(), "boostrank.objective.description"))
