"""What processes that tests start find in place of scikit-learn (see tests/conftest.py)."""

raise ImportError("as on a machine without scikit-learn")
