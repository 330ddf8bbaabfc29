"""The engine for linear rankers."""
