"""The public readers of files: `read` returns a data set, `stream` keeps its features on disk."""

from __future__ import annotations

import os
from typing import Any

from boostrank.data.dataset import RankingDataset
from boostrank.files.assemble import read_files
from boostrank.files.source import AnySource
from boostrank.files.store import stream_files
from boostrank.options import Option, ReadOptions, declared, takes_options

_SHARED = [Option(name=name, help="") for name in ("like", "threads", "progress", "chunk_bytes")]
_takes_reader_options = takes_options((*_SHARED, *declared(ReadOptions).values()))


@_takes_reader_options
def read(path: AnySource, *, format: str = "auto", **options: Any) -> RankingDataset:
    """Read files of one format as one data set.

    The number of features, and the number of the first feature (0 or 1), are the same for all
    files. Columns of tables are matched by name. Each query must be in one file, and its id in no
    other. An id that comes back is refused, or its rows are joined if `regroup` is set, and then
    `input_rows` records the original rows. The group sizes in `FILE.query` or `FILE.group` define
    the queries of a file without query ids, and `FILE.weight` contains weights.

    Args:
        path: a plain file or one compressed by gzip, several files, a pattern such as
            `shards/*.gz`, a binary file object, or "-" for standard input.
        format: name of the format: libsvm (SVMrank, LETOR), csv, tsv, parquet or arrow; "auto"
            detects it from the file name, else the content.
        options: fields of `boostrank.options.ReadOptions`, the reading options in `boostrank train
            --help`. `like` is the training data (or their `FeatureSpace`) whose features are read:
            others are ignored with a warning, and absent ones are zero. `threads` (None for all
            cores) and `chunk_bytes`, the size of the pieces that they parse, do not affect the
            result. `progress` is called with the bytes read and their total (or None).

    Raises:
        FileFormatError: unreadable content. The message names the file, the first such line or row,
            and the column.
        ParameterError: an option is out of range, contradicts another option, or is not supported
            by the format.

    Example:
        >>> import io
        >>> from boostrank import read
        >>> text = b"2 qid:1 1:0.5 # a\\n0 qid:1 1:0.1 # b\\n1 qid:2 2:3 # c\\n"
        >>> data = read(io.BytesIO(text), keep_names=True)
        >>> sizes, names = data.queries.sizes.tolist(), data.document_names.tolist()
        >>> data.features.shape, data.labels.tolist(), sizes, names
        ((3, 2), [2.0, 0.0, 1.0], [2, 1], ['a', 'b', 'c'])
    """
    return read_files(path, format=format, **options)


@_takes_reader_options
def stream(
    path: AnySource,
    *,
    format: str = "auto",
    cache: str | os.PathLike[str] | bool = True,
    external_memory: bool = False,
    **options: Any,
) -> RankingDataset:
    """Read files and keep their features on disk, from which `features` reads slices.

    Each value takes 4 bytes in an unnamed temporary file (in the cache folder, else in `TMPDIR`),
    which is removed with the data set or when the process ends.

    Args:
        path, format, options: see `boostrank.read`.
        cache: cache folder. True means `.boostrank-cache` next to the first file, and False
            disables the cache, which is never used for sources that can be read only once (pipes).
        external_memory: whether XGBoost also keeps its bins on disk.

    Raises:
        FileFormatError, ParameterError: see `boostrank.read`.
        DataError: the rows of a query are scattered, and `regroup` cannot move rows on disk.
        TrainingError: the disk is full.

    Example:
        >>> import pathlib, tempfile
        >>> from boostrank import stream
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "train.txt"
        ...     _ = path.write_text("2 qid:1 1:0.5 2:1\\n0 qid:1 1:0.1 2:1\\n")
        ...     data = stream(path, cache=False)
        ...     data.on_disk, data.features[0:1].tolist()
        (True, [[0.5, 1.0]])
    """
    return stream_files(
        path, format=format, cache=cache, external_memory=external_memory, **options
    )
