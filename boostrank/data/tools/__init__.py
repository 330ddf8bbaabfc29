"""File tools that never cut a query: split, sample, shard, sort and merge."""

from boostrank.data.tools.file_tools import Written, merge, sample, shard, sort, split

__all__ = ["Written", "merge", "sample", "shard", "sort", "split"]
