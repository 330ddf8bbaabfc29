"""Files that tools write lines to: whole or not at all, compressed as their name says."""

from __future__ import annotations

import bz2
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO

from boostrank.core.errors import ParameterError
from boostrank.core.files import check_not_read, check_output, writing
from boostrank.data.side_files import refuse_sidecars
from boostrank.data.text.files import zstd_module

STANDARD_OUTPUT = "-"
_BUFFER = 1 << 16
_FIELD = re.compile(r"\{(|:0?\d)\}")


def _zstd() -> Any:
    zstd = zstd_module()
    names = zstd.CompressionParameter
    return zstd.ZstdCompressor(options={names.checksum_flag: 1, names.compression_level: 1})


# Quick rather than small; gzip without the time, so that the same lines give the same bytes.
_PACKERS: dict[str, Callable[[], Any]] = {
    ".gz": lambda: zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS),
    ".bz2": lambda: bz2.BZ2Compressor(),
    ".xz": lambda: lzma.LZMACompressor(preset=0),
    ".zst": _zstd,
}


@dataclass(frozen=True)
class Written:
    """A file that was written: its path, its rows and its queries."""

    path: str
    rows: int
    queries: int


class Output:
    """Takes lines; made by `open_output`."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path, self.rows, self.queries = path, 0, 0
        make = _PACKERS.get(os.path.splitext(path)[1])
        self._file, self._packer = file, None if make is None else make()

    def write(self, text: bytes | memoryview, *, rows: int, begins: bool) -> None:
        """Write whole lines: so many rows, of a new query or of the one before."""
        self.rows += rows
        self.queries += begins
        self._file.write(text if self._packer is None else self._packer.compress(text))

    def finish(self) -> None:
        """Write what was held back; a second time there is nothing left to do."""
        if self._packer is not None:
            self._file.write(self._packer.flush())
            self._packer = None
        self._file.flush()

    @property
    def written(self) -> Written:
        """What was written so far."""
        return Written(self.path, self.rows, self.queries)


@contextmanager
def open_output(path: str, read: Iterable[Any] = ()) -> Iterator[Output]:
    """The file at `path` (`-`: standard output), replaced when the block ends well.

    Args:
        path: where it goes.
        read: paths of what it is made of, none of which it may replace; others than paths are left alone.

    Raises:
        InputError: it could not be written, is one of those, or sidecars of other data lie beside it.
        TrainingError: it could not be written, after all.
    """
    if path != STANDARD_OUTPUT:
        check_target(path, read)
    target = nullcontext(sys.stdout.fileno()) if path == STANDARD_OUTPUT else writing(path)
    with target as descriptor, open(descriptor, "wb", _BUFFER, closefd=False) as file:
        output = Output(path, file)
        yield output
        output.finish()


def check_target(path: str, read: Iterable[Any]) -> None:
    """Find out before the work whether the file could be written after it; arguments as of `open_output`.

    Raises:
        InputError: as `open_output`.
        MissingDependency: its name asks for a compression that is not there.
    """
    check_output(path)
    check_not_read(path, [one for one in read if isinstance(one, str | os.PathLike) and one != STANDARD_OUTPUT])
    if path.endswith(".zst"):
        zstd_module()
    refuse_sidecars(path)


def named(template: str, name: str | int) -> str:
    """The path of one of several outputs.

    Args:
        template: with `{}` (a number also `{:03}`), which `name` takes the place of; without, `-name` goes before the
            endings of the file name: `a/web.txt.gz` -> `a/web-train.txt.gz`.
        name: text, or a number, which gets three digits at least unless the template says otherwise.

    Raises:
        ParameterError: more than one place for the name, or braces of another kind; standard output.
    """
    if template == STANDARD_OUTPUT:
        raise ParameterError("several outputs cannot go to standard output: name a file")
    before, *rest = _FIELD.split(template)  # where there is a place: its format and what is behind it
    if not rest:
        folder, file = os.path.split(template)
        stem, dot, endings = file.partition(".")
        before, rest = os.path.join(folder, stem + "-" * bool(stem)), [":03", dot + endings]
    if len(rest) > 2 or set("{}") & set(before + rest[1]) or not template:
        raise ParameterError(f"output {template!r}: put {{}} or {{:03}} where the name or number goes, once")
    width = int(rest[0][-1:] or 3)
    return before + (f"{name:0{width}}" if isinstance(name, int) else name) + rest[1]
