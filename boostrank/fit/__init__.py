"""Training: wraps `lgb.train` and `xgb.train`, and keeps what came out."""
