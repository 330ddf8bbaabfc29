"""Chunks of whole lines from text, plain or compressed by gzip, in a file, a pipe or a binary file
object.

Files are not memory-mapped, because truncation of a mapped file would kill the process.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from boostrank.core.errors import FileFormatError
from boostrank.core.files import foreign_kind
from boostrank.core.types import Int64Array
from boostrank.files.blocks import Fault
from boostrank.files.source import MAX_LINE, File, OneSource

HEAD = 1 << 16
PADDING = 32 * b"\n"  # the parser may read this far past the text

# Words that people and tools write for a missing value.
STAND_INS = frozenset(
    b"null na n/a ? none - nil missing \\n #n/a <na> nat . #div/0! #value! #num! #ref! #name?"
    b" 1.#qnan 1.#ind".split()
)

MISSING_REMEDY = ": if it stands for a missing value, --missing-token {} reads it as one"

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
CELL = re.compile(rb"(^|[ \t])(qid|\d+):")
_LONGEST = 40
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NUL_BYTE = (
    "the line contains a NUL byte: the file is damaged, or is not text (UTF-16: convert it,"
    " `iconv -f UTF-16LE -t UTF-8`)"
)
LONE_RETURN = (
    "the line contains a carriage return without a line feed: convert the file (tr '\\r' '\\n')"
)
GZIP = b"\x1f\x8b"  # first bytes of compressed data
_AT_A_TIME = 1 << 18
_PACKED = 1 << 14


@dataclass
class Text:
    """Whole lines, buffer[:size], followed by PADDING. Only the last line of a file may lack its
    newline."""

    buffer: bytearray
    size: int

    @property
    def unterminated(self) -> bool:
        """Whether the last line has no newline."""
        return self.buffer[self.size - 1] != 10

    def split(self) -> list[bytes]:
        """Return the lines, without their ends."""
        lines = bytes(self.buffer[: self.size]).removesuffix(b"\n").split(b"\n")
        return [line.removesuffix(b"\r") for line in lines]

    def lines(self) -> tuple[memoryview, Int64Array]:
        """Return the text, with a newline at its end, and the position after each line."""
        # The padding begins with a newline.
        view = memoryview(self.buffer)[: self.size + self.unterminated]
        return view, np.flatnonzero(np.frombuffer(view, np.uint8) == 10) + 1


class TextFile(File):
    """An open text in a file, a pipe or a file object, plain or compressed.

    Args:
        read: function that returns up to a number of bytes, or b"" at the end.

    Attributes:
        head: beginning of the text, without the byte order mark. It may be cut off from HEAD bytes.
        buffers: buffers of earlier chunks that are not used any more.
    """

    _member: Any

    def __init__(
        self,
        read: Callable[[int], bytes],
        name: str,
        path: str | None = None,
        descriptor: int | None = None,
    ) -> None:
        super().__init__(name, path, descriptor)
        self._raw, self._raw_bytes = read, 0
        self._ended, self.buffers = False, list[bytearray]()
        self._packed = b""  # compressed bytes to unpack
        # A pipe may return a byte at a time.
        first = b""
        while len(first) < len(GZIP) and (more := self._read_raw(HEAD)):
            first += more
        self.is_packed, self._next = first.startswith(GZIP), self._read_raw
        if self.is_packed:
            self._packed, self._member = first, None
            self._next, first = self._unpack, b""
        self.text_bytes = len(first)
        space = bytearray(HEAD + len(BYTE_ORDER_MARK) - len(first))
        head = first + space[: self._fill(memoryview(space))]
        if self.is_packed and head.startswith(GZIP):
            raise FileFormatError("the file is compressed twice; decompress it once", file=name)
        self.head = head.removeprefix(BYTE_ORDER_MARK)
        self.done = self._raw_bytes - len(self._packed)

    def _read_raw(self, size: int) -> bytes:
        try:
            data = self._raw(size)
        except (OSError, EOFError, zlib.error) as error:  # of a file object, too
            reason = getattr(error, "strerror", None) or error
            raise FileFormatError(f"cannot be read: {reason}", file=self.name) from None
        self._raw_bytes += len(data)
        return data

    def _unpack(self, size: int) -> bytes:
        """Decompress up to `size` bytes of text, member by member, or return b"" at the end, and
        verify checksums."""
        while True:
            if self._member is None:  # between members; tapes and some tools pad with zeros
                while not (packed := self._packed.lstrip(b"\0")):
                    self._packed = self._read_raw(_PACKED)
                    if not self._packed:
                        return b""
                self._packed, self._member = packed, zlib.decompressobj(16 + zlib.MAX_WBITS)
            if not self._packed:
                self._packed = self._read_raw(_PACKED)
                if not self._packed:
                    raise FileFormatError(
                        "the gzip data is truncated, and was not used", file=self.name
                    )
            try:
                text = self._member.decompress(self._packed, size)
            except zlib.error as error:
                raise FileFormatError(
                    f"the gzip data is damaged: {error}", file=self.name
                ) from None
            self._packed = self._member.unconsumed_tail
            if self._member.eof:
                self._packed, self._member = self._member.unused_data, None
            if text:
                return bytes(text)

    def _fill(self, view: memoryview) -> int:
        """Fill a view with text, and return the number of bytes, which is smaller at the end."""
        filled = 0
        while filled < len(view) and not self._ended:
            data = self._next(min(len(view) - filled, _AT_A_TIME))
            view[filled : filled + len(data)] = data
            filled, self._ended = filled + len(data), not data
            if self._ended:
                self.check_unchanged()
            self.text_bytes += len(data)
        return filled

    def chunks(self, chunk_bytes: int) -> Iterator[Text | Fault]:
        """Yield chunks of whole lines.

        A chunk grows for a longer line; one beyond the longest line ends the text with a fault.
        """
        carry, want = self.head, chunk_bytes
        while carry or not self._ended:
            # Fill a buffer, after the beginning of a line that the previous chunk left.
            size = max(want, len(carry)) + len(PADDING)
            buffer = self.buffers.pop() if self.buffers else bytearray()
            if len(buffer) < size:
                buffer = bytearray(size)
            buffer[: len(carry)] = carry
            with memoryview(buffer) as view:
                end = len(carry) + self._fill(view[len(carry) : want])
            self.done = self._raw_bytes - len(self._packed)
            # Cut it after the last whole line.
            stop = min(end, want)
            cut = buffer.rfind(b"\n", 0, stop) + 1
            if self._ended and end <= want:
                cut = end
            if want > chunk_bytes and (buffer.find(b"\n", 0, stop) + 1 or stop) > MAX_LINE:
                yield Fault(
                    1, f"the line is longer than {MAX_LINE >> 20} MiB: is this a text file?"
                )
                return
            carry, want = bytes(buffer[cut:end]), chunk_bytes if cut else 2 * want
            if cut:
                buffer[cut : cut + len(PADDING)] = PADDING
                yield Text(buffer, cut)


def open_text(source: OneSource) -> TextFile:
    """Open ranking data in a file, standard input ("-") or a binary file object."""
    file = open_any(source)
    kind = foreign_kind(file.head)
    if kind is not None:
        file.close()
        raise FileFormatError(f"the file is not ranking data: {kind}", file=file.name)
    return file


def open_any(source: OneSource) -> TextFile:
    """Open any text in the same way as `open_text`."""
    if not isinstance(source, (str, os.PathLike)):
        name = str(getattr(source, "name", "<stream>"))
        if not hasattr(source, "read") or isinstance(source.read(0), str):
            raise FileFormatError(
                "pass a path, '-' or a file object opened in binary mode", file=name
            )
        return TextFile(source.read, name)
    path = os.fspath(source)
    if path == "-":
        return TextFile(partial(os.read, sys.stdin.fileno()), "<stdin>")
    if os.path.isdir(path):
        raise FileFormatError("the path is a directory; pass a file in it", file=path)
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise FileFormatError(str(error.strerror), file=path) from None
    try:
        regular = path if os.path.isfile(path) else None
        return TextFile(partial(os.read, fd), path, regular, fd)
    except BaseException:
        os.close(fd)
        raise


def lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the content of each line in a text, plain or compressed,
    without line ends."""
    number = 0
    with contextlib.closing(open_any(path)) as file:
        for text in file.chunks(4 << 20):
            if isinstance(text, Fault):
                raise text.error(path, number)
            for line in text.split():
                number += 1
                yield number, line


def first_line(path: str) -> bytes:
    """Return the first line of a text that is neither blank nor a comment, or b""."""
    lines = (line for _, line in lines_of(path))
    return next((line for line in lines if line.strip() and not line.startswith(b"#")), b"")


def quote_token(token: bytes) -> str:
    """Return a token for use in messages, in printable, quoted and shortened form."""
    text = token if len(token) <= _LONGEST else token[:_LONGEST] + b"..."
    return repr(text).removeprefix("b").replace(r"\\", "\\")


def separator_in(head: bytes) -> bytes:
    """Return the separator of the column names in the first line of a text, or b"" if there are no
    names."""
    line = head.partition(b"\n")[0].removesuffix(b"\r")
    if line.lstrip().startswith(b"#") or CELL.search(line):
        return b""
    for separator in (b"\t", b","):
        cells = [cell.strip().strip(b'"') for cell in line.split(separator)]
        if len(cells) > 1 and all(cells) and not any(map(NUMBER.match, cells)):
            return separator
    return b""
