"""Evidence: each folder holds a question, one command, and what it means. Imports boostrank as a
user would.
"""
