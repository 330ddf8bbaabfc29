"""XGBoost as an engine."""
