"""The engine for XGBoost."""
