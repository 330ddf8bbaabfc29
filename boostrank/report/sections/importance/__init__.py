"""Feature importance: permutation importance within queries, SHAP and gain."""
