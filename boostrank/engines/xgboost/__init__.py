"""XGBoost behind the backend contract."""
