"""Fuzzing: made and damaged input of every kind is taken as the oracle takes it, or refused with a
`BoostrankError`.

A target is one file in `targets/`: `cases`, a strategy of dictionaries of plain values, and
`check(**case)`, which raises where the promise is broken. `python -m qa.fuzz --seconds 600`
(`make fuzz`) runs them, each in a process of its own; what broke one is kept in `corpus/TARGET/`,
as a Python literal, and `test_corpus` replays it in the suite.
"""
