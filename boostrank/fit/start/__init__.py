"""The linear start of trees."""
