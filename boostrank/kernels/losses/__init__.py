"""Losses a document, shared by objectives: squared error and softmax cross entropy."""
