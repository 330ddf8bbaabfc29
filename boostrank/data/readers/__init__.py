"""Readers: one file a format of ranking data. `READERS` finds them; nothing else lists them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from boostrank.core.errors import BoostrankError, ParameterError, did_you_mean
from boostrank.core.registry import Registry

_PACKED = (".gz", ".bz2", ".xz", ".zst")
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
_HEAD = 8


@dataclass(frozen=True)
class ReaderSpec:
    """A format of ranking data.

    Args:
        name: as users type it.
        read: `read(source, *, like=None, threads=None, progress=None, **options)` gives a `RankingDataset`. `source` is
            a path, or a sequence of them; `like` the training data or its `FeatureSpace`; `progress` is called with the
            bytes read and their total. Of `boostrank.data.options.ReaderOptions` it takes those that it knows.
        stream: the same with features on disk, `cache` and `external_memory` more; None: the format must fit in memory.
        pieces: `pieces(source, work, *, columns=None, **as above)` gives what `work` makes of rows, some at a time, in
            their order; see `boostrank.data.libsvm.pieces`. None: the format is read as a whole.
        table: of tables, the `boostrank.data.tables.reader.TableFormat` that opens them for samples and for the doctor.
        endings: of the names of its files, before the ending of a compression.
        aliases: other names that people type.
    """

    name: str
    read: Callable[..., Any]
    stream: Callable[..., Any] | None = None
    pieces: Callable[..., Iterator[Any]] | None = None
    endings: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    table: Any = None


READERS: Registry[ReaderSpec] = Registry("boostrank.data.readers", "format of data")


def read_files(source: Any, *, format: str = "auto", stream: bool = False, **options: Any) -> Any:
    """The data set in some files, by the reader of their format.

    Args:
        source: a path, a pattern, "-", a binary file object, or a sequence of them.
        format: a name of `READERS`; "auto": as the names of the files end.
        stream: whether features stay on disk.
        options: of the reader.

    Raises:
        ParameterError: files of several formats, or what the format's reader cannot do.
    """
    spec = reader_of(source, format)
    read = spec.stream if stream else spec.read
    if read is None:
        raise ParameterError(f"{spec.name} files are read into memory alone: no streaming (--route memory)")
    _check_options(spec, read, options)
    return read(source, **options)


def pieces_of_files(
    source: Any, work: Callable[[Any], Any], *, format: str = "auto", **options: Any
) -> Iterator[Any] | None:
    """What `work` makes of the rows of some files, as `ReaderSpec.pieces`; None where the format has no pieces.

    Args:
        source, format: as for `read_files`.
        work: takes rows.
        options: of the reader.

    Raises:
        ParameterError: as `read_files`.
    """
    spec = reader_of(source, format)
    if spec.pieces is None:
        return None
    _check_options(spec, spec.pieces, options)
    return spec.pieces(source, work, **options)


def _check_options(spec: ReaderSpec, read: Callable[..., Any], options: Mapping[str, Any]) -> None:
    known = inspect.signature(read).parameters
    unknown = [name for name in options if name not in known]
    if unknown and not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values()):
        hint = did_you_mean(unknown[0], known, list_all=False)
        raise ParameterError(f"{spec.name} files are read without {unknown[0]}.{hint}")


def reader_of(source: Any, format: str = "auto") -> ReaderSpec:
    """What reads the files of a source, by the ends of their names, or where these say nothing by how files begin.

    Args:
        source: as for `read_files`.
        format: its name, "auto" as above.

    Raises:
        ParameterError: files of several formats, or an unknown one.
    """
    if format != "auto":
        return READERS.get(format)
    found = set()
    for one in source if isinstance(source, (list, tuple)) else [source]:
        name = os.fspath(one) if isinstance(one, (str, os.PathLike)) else ""
        for packed in _PACKED:
            name = name.removesuffix(packed)
        by_name = next((spec for spec in READERS if name.lower().endswith(spec.endings or ("\0",))), None)
        found.add(by_name or _by_content(one))
    if len(found) > 1:
        raise ParameterError(f"files of several formats ({', '.join(sorted(one.name for one in found))}): name one")
    return next(iter(found), READERS.get("libsvm"))


def _by_content(one: Any) -> ReaderSpec:
    """What reads a file whose name says nothing; libsvm what cannot be looked at twice, or is none of the others."""
    name = "libsvm"
    if isinstance(one, (str, os.PathLike)) and os.path.isfile(one):
        with suppress(OSError), open(one, "rb") as file:
            head = file.read(_HEAD)
            name = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None) or _of_text(one)
    return READERS.get(name)


def _of_text(path: str | os.PathLike[str]) -> str:
    """libsvm, or csv or tsv where the first line looks so."""
    from boostrank.data.libsvm.chunks import open_source
    from boostrank.data.libsvm.reasons import table_in

    try:
        source = open_source(path, None)
    except BoostrankError:
        return "libsvm"  # whose reader says what is wrong
    try:
        return table_in(source.head) or "libsvm"
    finally:
        source.close()
