"""Training: plans, presets, folds, checkpoints and callbacks, on top of `lgb.train` and
`xgb.train`.
"""
