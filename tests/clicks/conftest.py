"""Entries of click logs."""

from __future__ import annotations

from boostrank.clicks.log import ClickLog


def list_entries(log: ClickLog) -> list[tuple[int, ...]]:
    """(row, position, impressions, clicks) of each entry."""
    columns = (log.rows, log.positions, log.impressions, log.clicks)
    return list(zip(*(column.tolist() for column in columns), strict=True))
