"""Losses per document that objectives share: squared error and softmax cross entropy."""
