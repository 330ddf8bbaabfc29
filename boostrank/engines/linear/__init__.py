"""Linear rankers behind the backend contract."""
