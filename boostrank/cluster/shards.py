"""Shards: which worker reads which of them, and whether workers and shards go together."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.core.errors import DataError, InputError
from boostrank.core.types import Float64Array, Int64Array


@dataclass(frozen=True)
class Shard:
    """A shard as a worker has read it.

    Args:
        path: of the file.
        index_base: number of its first feature; None where features have names.
        names: of the features.
        rows: documents.
        qids: names of its queries.
        fingerprint: of its numbers.
        sizes: int64[q], documents in each query.
        weights: float64[q], of its queries, or None.
        weighs_documents: whether each of its documents has a weight.
        categories: names of the features that hold codes of categories.
    """

    path: str
    index_base: int | None
    names: tuple[str, ...]
    rows: int
    qids: npt.NDArray[Any]
    fingerprint: str
    sizes: Int64Array
    weights: Float64Array | None
    weighs_documents: bool = False
    categories: tuple[str, ...] = ()


def refuse_differences(properties: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse workers that are not alike: they would train on different things, or hang.

    Args:
        properties: worker -> what must be the same on all of them.

    Raises:
        InputError: what differs, and where.
    """
    (first, expected), *others = properties.items()
    for name, value in expected.items():
        for worker, found in others:
            if found.get(name) != value:
                raise InputError(
                    f"the workers differ: {name} is {value} on {first} and {found.get(name, 'absent')} on {worker}. "
                    "All of them need the same installation"
                )


def refuse_unreachable(hosts: Mapping[str, str]) -> None:
    """Refuse a loopback address where there are several machines.

    Args:
        hosts: worker's address (10.0.0.7:4711) -> name of its machine.

    Raises:
        InputError: there is such an address.
    """
    if len(set(hosts.values())) < 2:
        return
    for address, host in hosts.items():
        if is_loopback(host_of(address)):
            raise InputError(
                f"worker {address} on {host} gives an address that other machines cannot reach (its host name leads to "
                "itself, often by a line 127.0.1.1 in /etc/hosts): have the client listen on an address that all "
                "machines reach (listen=)"
            )


def host_of(address: str) -> str:
    """`10.0.0.7:4711` -> `10.0.0.7`; `tcp://[::1]:4711` -> `::1`."""
    return address.rpartition("://")[2].rpartition(":")[0].strip("[]")


def is_loopback(host: str) -> bool:
    """Whether an address means the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def place(
    shards: Sequence[str], sizes: Mapping[str, Mapping[str, int]], already: Mapping[str, Sequence[str]] | None = None
) -> dict[str, list[str]]:
    """Share shards out so that workers have about as many bytes each: the largest first, to the one with least so far.

    Args:
        shards: paths.
        sizes: worker -> path -> bytes, of the shards that it can read.
        already: worker -> shards of another data set that it has to read.

    Returns:
        Worker -> its shards, in the order given.

    Raises:
        InputError: a shard that no worker can read, or that is another file on another worker.
    """
    load = {worker: sum(sizes[worker][path] for path in (already or {}).get(worker, ())) for worker in sizes}
    owner: dict[str, str] = {}
    for path in shards:
        seen = {worker: readable[path] for worker, readable in sizes.items() if path in readable}
        if not seen:
            raise InputError(
                f"{path}: no worker can read it. Workers read their shards themselves, so each must lie where a worker "
                "sees it under this very path"
            )
        if len(set(seen.values())) > 1:
            (one, size), (other, other_size) = next(
                ((w, s), (v, t)) for w, s in seen.items() for v, t in seen.items() if s != t
            )
            raise InputError(
                f"{path}: {size:,} bytes on {one}, {other_size:,} on {other}. It must be one file, or have a name of "
                "its own on each machine"
            )
    for path in sorted(shards, key=lambda path: -max(readable.get(path, 0) for readable in sizes.values())):
        able = [worker for worker in sizes if path in sizes[worker]]
        owner[path] = min(able, key=lambda worker: load[worker])
        load[owner[path]] += sizes[owner[path]][path]
    return {worker: [path for path in shards if owner[path] == worker] for worker in sizes}


def refuse_shared_queries(shards: Sequence[tuple[str, Shard]]) -> None:
    """Refuse a query in two shards: it would be ranked as two shorter ones.

    Args:
        shards: worker and shard.

    Raises:
        DataError: names the query, both files and their workers.
    """
    qids, owners = _all_ids([shard for _, shard in shards])
    order = np.argsort(qids, kind="stable")
    again = np.flatnonzero(qids[order][1:] == qids[order][:-1])
    if again.size:
        first, second = sorted(owners[order[again[0] : again[0] + 2]])
        (worker, one), (other, two) = shards[first], shards[second]
        more = f", and {again.size - 1:,} more are in two" if again.size > 1 else ""
        raise DataError(
            f"query {qids[order[again[0]]]} is in {one.path} (on {worker}) and in {two.path} (on {other}){more}: "
            "a shard holds whole queries; `boostrank data shard` cuts a file between them"
        )


def refuse_mixed_weights(shards: Sequence[Shard]) -> None:
    """Refuse weights of queries in one shard and of documents in another: read as one data set, all weigh documents.

    Raises:
        DataError: names both files.
    """
    of_documents = next((one.path for one in shards if one.weighs_documents), None)
    of_queries = next((one.path for one in shards if one.weights is not None), None)
    if of_documents is not None and of_queries is not None:
        raise DataError(
            f"the weights of {of_documents} differ within a query and weigh documents, those of {of_queries} weigh "
            "queries: give all shards the one or the other"
        )


def shared_with_training(training: Sequence[Shard], other: Sequence[Shard]) -> list[Any]:
    """Query ids of `other` that the training set has as well."""
    ids, _ = _all_ids([*training, *other])
    count = sum(len(shard.qids) for shard in training)
    return list(np.intersect1d(ids[:count], ids[count:]))


def _all_ids(shards: Sequence[Shard]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Query ids of all shards, as text if any of them has text; and the number of the shard of each."""
    parts = [shard.qids for shard in shards]
    if any(part.dtype.kind == "O" for part in parts):
        parts = [part.astype(str) for part in parts]
    ids = np.concatenate([np.zeros(0, parts[0].dtype) if parts else np.zeros(0, np.int64), *parts])
    return ids, np.repeat(np.arange(len(shards)), [len(part) for part in parts])
