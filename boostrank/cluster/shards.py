"""Shards: which worker reads which of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boostrank.core.errors import InputError


def place(
    shards: Sequence[str], sizes: Mapping[str, Mapping[str, int]], already: Mapping[str, Sequence[str]] | None = None
) -> dict[str, list[str]]:
    """Deal shards so that workers have about as many bytes each: the largest first, to the one with least so far.

    Args:
        shards: paths.
        sizes: worker -> path -> bytes, of the shards that it can read.
        already: worker -> shards of another data set that it has to read.

    Returns:
        Worker -> its shards, in the order given.
    """
    load = {worker: sum(sizes[worker][path] for path in (already or {}).get(worker, ())) for worker in sizes}
    seen = {path: {worker: known[path] for worker, known in sizes.items() if path in known} for path in shards}
    owner: dict[str, str] = {}
    for path, found in seen.items():
        if not found:
            raise InputError(
                f"{path}: no worker can read it. Workers read their shards themselves, so each must lie where a worker "
                "sees it under this very path"
            )
        (one, size), *others = found.items()
        for other, other_size in others:
            if other_size != size:
                raise InputError(
                    f"{path}: {size:,} bytes on {one}, {other_size:,} on {other}. It must be one file, or have a name "
                    "of its own on each machine"
                )
    for path in sorted(shards, key=lambda path: -max(seen[path].values())):
        owner[path] = min(seen[path], key=lambda worker: load[worker])
        load[owner[path]] += seen[path][owner[path]]
    return {worker: [path for path in shards if owner[path] == worker] for worker in sizes}
