"""Text files as chunks of whole lines: plain or compressed, from a file, a pipe or a binary file object.

Files are not memory-mapped, because truncation while reading would kill the process. Only a few chunks are in memory.
Compressed data are decompressed as a stream, member by member.
"""

from __future__ import annotations

import bz2
import contextlib
import lzma
import os
import re
import stat
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from boostrank.core.errors import FileFormatError, MissingDependency
from boostrank.core.files import foreign_kind
from boostrank.core.types import Int64Array
from boostrank.data.source import MAX_LINE, LineTooLong

HEAD = 1 << 16
PADDING = 32 * b"\n"  # the parser may read this far past the text

# What people and tools write where a value is missing.
STAND_INS = frozenset(
    b"null na n/a ? none - nil missing \\n #n/a <na> nat . #div/0! #value! #num! #ref! #name? 1.#qnan 1.#ind".split()
)

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
CELL = re.compile(rb"(^|[ \t])(qid|\d+):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST = 40
_BOM = b"\xef\xbb\xbf"
_UTF16 = "looks like UTF-16: convert it, `iconv -f UTF-16 -t UTF-8`"
LONGEST_MAGIC = 6
_AT_A_TIME = 1 << 20
_XZ_MEMORY = 256 << 20  # `xz -9` needs 65 MiB; a damaged or hostile file may request 4 GiB
_ZSTD = struct.pack("<I", 0xFD2FB528)
_ZSTD_SKIPPABLE = tuple(struct.pack("<I", 0x184D2A50 + i) for i in range(16))  # pzstd writes one before each frame


def zstd_module() -> Any:
    """Return the zstd module of Python, or its backport."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14
    except ImportError:
        try:
            from backports import zstd  # type: ignore[no-redef, unused-ignore]
        except ImportError:
            raise MissingDependency(
                "zstd needs a library: pip install 'boostrank[zst]', or use a pipe, `zstd -dc FILE | boostrank ... -`"
            ) from None
    return zstd


# first bytes -> (name, function that makes the decompressor of a member)
_FORMATS: dict[tuple[bytes, ...], tuple[str, Callable[[], Any]]] = {
    (b"\x1f\x8b",): ("gzip", partial(zlib.decompressobj, 16 + zlib.MAX_WBITS)),
    (b"BZh",): ("bzip2", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00",): ("xz", partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, _XZ_MEMORY)),
    (_ZSTD, *_ZSTD_SKIPPABLE): ("zstd", lambda: zstd_module().ZstdDecompressor()),
}


def is_packed(head: bytes) -> bool:
    """Return whether data with this beginning are compressed in a format of `Unpacker`."""
    return _format(head) is not None


def _format(head: bytes) -> tuple[str, Callable[[], Any]] | None:
    return next((made for magic, made in _FORMATS.items() if head.startswith(magic)), None)


class Unpacker:
    """Decompressing reader of `read`, after the bytes in `head`."""

    def __init__(self, read: Callable[[int], bytes], head: bytes, name: str) -> None:
        made = _format(head)
        assert made is not None
        self._format, self._make = made
        self._read, self._packed, self._name = read, head, name
        self._member: Any = self._make()
        # zstd's error is an exception class of its module, which is imported by now
        self._damage: tuple[type[Exception], ...] = (zlib.error, lzma.LZMAError, OSError, ValueError)
        if self._format == "zstd":
            self._damage += (zstd_module().ZstdError,)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of text; b"" after the last member, whose checksum is verified."""
        while True:
            if self._member is None:  # between members; tapes and some tools pad with zeros
                while not (packed := self._packed.lstrip(b"\0")):
                    self._packed = self._read(_AT_A_TIME)
                    if not self._packed:
                        return b""
                self._packed, self._member = packed, self._make()
            if not self._packed and getattr(self._member, "needs_input", True):
                self._packed = self._read(_AT_A_TIME)
                if not self._packed:
                    raise FileFormatError(f"the {self._format} data is truncated, and was not used", file=self._name)
            try:
                text = self._member.decompress(self._packed, size)
            except self._damage as error:
                raise FileFormatError(f"the {self._format} data is damaged: {error}", file=self._name) from None
            self._packed = getattr(self._member, "unconsumed_tail", b"")
            if self._member.eof:
                self._packed, self._member = self._member.unused_data, None
            if text:
                return bytes(text)


@dataclass
class Text:
    """Whole lines: buffer[start:end], followed by PADDING; only the last line of a file may lack its newline."""

    buffer: bytearray
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.end - self.start

    @property
    def unterminated(self) -> bool:
        """Whether the last line has no newline."""
        return self.end > self.start and self.buffer[self.end - 1] != 10

    def lines(self) -> tuple[memoryview, Int64Array]:
        """Return the lines, the last with its newline, and the end of each."""
        view = memoryview(self.buffer)[self.start : self.end + self.unterminated]  # the padding begins with a newline
        return view, np.flatnonzero(np.frombuffer(view, np.uint8) == 10) + 1


# Returns the lines in a buffer, which may be reused and is replaced if too small; runs on any thread.
Load = Callable[[bytearray | None], Text]


class TextFile:
    """An open text file, as `boostrank.data.source.File`; `head` is its beginning without the byte order mark.

    Args:
        fd: a file to close; a regular one has a `path`.
    """

    is_packed = any_order = False
    rows: int | None = None
    text_bytes: int
    head: bytes
    bom = 0

    def __init__(self, name: str, fd: int | None, *, regular: bool) -> None:
        self.name, self.fd, self.path, self.done = name, fd, name if regular else None, 0
        self._before = _state(fd) if regular and fd is not None else None
        self.total = None if self._before is None else self._before[0]

    def begin(self, head: bytes) -> None:
        """Set the head."""
        pairs = min(len(head), 64) // 2
        if pairs >= 2 and b"\0" * pairs in (head[0 : 2 * pairs : 2], head[1 : 2 * pairs : 2]):
            raise FileFormatError(_UTF16, file=self.name)
        self.head = head
        self.skip(len(_BOM) * head.startswith(_BOM))

    def loads(self, chunk_bytes: int) -> Iterator[Load]:
        """Yield the chunks in order; each is read when its load is called, or when the iterator advances."""
        raise NotImplementedError

    def skip(self, size: int) -> None:
        """Skip a number of bytes of the head."""
        self.bom, self.head = self.bom + size, self.head[size:]

    @property
    def changed(self) -> bool:
        """Return whether the size or time of the file changed since it was opened."""
        return self.fd is not None and self._before is not None and _state(self.fd) != self._before

    def close(self) -> None:
        """Close the file."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class PlainFile(TextFile):
    """An uncompressed regular file, whose chunks can be read in any order."""

    any_order = True
    fd: int

    def __init__(self, fd: int, path: str, head: bytes, max_bytes: int | None) -> None:
        super().__init__(path, fd, regular=True)
        self.size = self.text_bytes = self.total or 0
        self.begin(head)
        if max_bytes is not None and self.size > max_bytes:
            raise FileFormatError(f"the file has {self.size:,} bytes, more than max_bytes={max_bytes:,}", file=path)

    def loads(self, chunk_bytes: int) -> Iterator[Load]:
        for begin in range(self.bom, self.size, chunk_bytes):
            self.done = min(begin + chunk_bytes, self.size)
            yield partial(self._load, begin, self.done)

    def _load(self, begin: int, stop: int, buffer: bytearray | None) -> Text:
        """Return the lines that begin in file[begin:stop], complete."""
        # The previous byte shows whether a line begins at `begin`.
        offset = begin if begin == self.bom else begin - 1
        if buffer is None or len(buffer) < stop - offset + len(PADDING):
            buffer = bytearray(stop - offset + len(PADDING))
        end = stop - offset
        self._read(buffer, 0, end, offset)
        start = 0 if begin == self.bom else buffer.find(b"\n", 0, end) + 1
        if (start == 0 and begin != self.bom) or start == end:
            return Text(buffer, 0, 0)
        step = HEAD
        while buffer[end - 1] != 10 and offset + end < self.size:
            size, step = min(self.size - offset, end + step), min(2 * step, 4 << 20)
            if len(buffer) < size + len(PADDING):
                buffer.extend(bytes(size + len(PADDING) - len(buffer)))
            self._read(buffer, end, size, offset)
            found = buffer.find(b"\n", end, size)
            end = size if found < 0 else found + 1
            last = buffer.rfind(b"\n", start, end - 1) + 1 or start
            if end - last > MAX_LINE:
                raise LineTooLong(buffer.count(b"\n", start, last))
        buffer[end : end + len(PADDING)] = PADDING
        return Text(buffer, start, end)

    def _read(self, buffer: bytearray, begin: int, end: int, offset: int) -> None:
        with memoryview(buffer) as view:
            while begin < end:
                try:
                    count = os.preadv(self.fd, [view[begin:end]], offset + begin)
                except OSError as error:
                    raise FileFormatError(f"cannot be read: {error.strerror}", file=self.name) from None
                if count == 0:
                    raise FileFormatError("the file was truncated while it was read", file=self.name)
                begin += count


class StreamFile(TextFile):
    """A sequential source: a pipe, a file object, or a compressed file."""

    def __init__(
        self,
        read: Callable[[int], bytes],
        name: str,
        max_bytes: int | None,
        fd: int | None = None,
        *,
        regular: bool = False,
    ) -> None:
        super().__init__(name, fd, regular=regular)
        self.raw, self.max_bytes, self.text_bytes, self.raw_bytes = read, max_bytes, 0, 0
        self.ended = self.closed = False
        first = b""
        while len(first) < LONGEST_MAGIC and (more := self._read_raw(HEAD)):  # a pipe may return a byte at a time
            first += more
        self.is_packed = is_packed(first)
        self.waiting = b"" if self.is_packed else first
        self.next = Unpacker(self._read_raw, first, name).read if self.is_packed else self._read_raw
        head = self._fill(HEAD)
        if self.is_packed and is_packed(head):
            raise FileFormatError("is compressed twice; decompress it once first", file=name)
        self.begin(head)
        self.done = self.raw_bytes

    def _read_raw(self, size: int) -> bytes:
        if self.closed:
            raise FileFormatError("reading was cancelled", file=self.name)
        try:
            data = self.raw(size)
        except OSError as error:
            raise FileFormatError(f"cannot be read: {error.strerror or error}", file=self.name) from None
        self.raw_bytes += len(data)
        return data

    def _fill(self, size: int) -> bytes:
        """Return exactly `size` bytes of text, fewer at the end."""
        parts: list[bytes] = []
        while size > 0 and not self.ended:
            data = self.waiting or self.next(size)
            self.waiting = b""
            self.ended = not data
            parts.append(data)
            size -= len(data)
            self.text_bytes += len(data)
            if self.max_bytes is not None and self.text_bytes > self.max_bytes:
                raise FileFormatError(f"the text is longer than max_bytes={self.max_bytes:,}", file=self.name)
        return b"".join(parts)

    def loads(self, chunk_bytes: int) -> Iterator[Load]:
        carry, want = self.head, chunk_bytes
        while carry or not self.ended:
            carry += self._fill(want - len(carry))
            self.done = self.raw_bytes
            last = self.ended and len(carry) <= want
            cut = len(carry) if last else carry.rfind(b"\n", 0, want) + 1
            grown = want > chunk_bytes  # the chunk begins with a line longer than a chunk
            if grown and (carry.find(b"\n", 0, want) + 1 or min(want, len(carry))) > MAX_LINE:

                def too_long(buffer: bytearray | None) -> Text:
                    raise LineTooLong(0)

                yield too_long
                return
            if cut == 0:
                want *= 2
                continue
            ready = Text(bytearray(carry[:cut] + PADDING), 0, cut)
            yield lambda _, text=ready: text  # type: ignore[misc]
            carry, want = carry[cut:], chunk_bytes

    def close(self) -> None:
        self.closed = True
        super().close()


def _state(fd: int) -> tuple[int, int]:
    now = os.fstat(fd)
    return now.st_size, now.st_mtime_ns


def open_text(source: str | os.PathLike[str] | BinaryIO, max_bytes: int | None) -> TextFile:
    """Open ranking data: a path, "-" (standard input) or a binary file object."""
    file = _open_any(source, max_bytes)
    kind = foreign_kind(file.head[:1000])
    if kind is not None:
        file.close()
        raise FileFormatError(f"not ranking data: {kind}", file=file.name)
    return file


def _open_any(source: str | os.PathLike[str] | BinaryIO, max_bytes: int | None) -> TextFile:
    """Open text of any kind."""
    if not isinstance(source, (str, os.PathLike)):
        name = str(getattr(source, "name", "<stream>"))
        if not hasattr(source, "read") or isinstance(source.read(0), str):
            raise FileFormatError("pass a path, '-' or a file object opened in binary mode", file=name)
        return StreamFile(source.read, name, max_bytes)
    path = os.fspath(source)
    if path == "-":
        return StreamFile(partial(os.read, sys.stdin.fileno()), "<stdin>", max_bytes)
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise FileFormatError(str(error.strerror), file=path) from None
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise FileFormatError("is a directory; pass a file in it", file=path)
        if stat.S_ISREG(mode):
            head = os.read(fd, HEAD)
            os.lseek(fd, 0, os.SEEK_SET)
            if not is_packed(head) and hasattr(os, "preadv"):  # Windows lacks preadv, and reads sequentially
                return PlainFile(fd, path, head, max_bytes)
        return StreamFile(partial(os.read, fd), path, max_bytes, fd, regular=stat.S_ISREG(mode))
    except OSError as error:
        os.close(fd)
        raise FileFormatError(f"cannot be read: {error.strerror or error}", file=path) from None
    except BaseException:
        os.close(fd)
        raise


def lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a text, plain or compressed, with their numbers from 1, without line ends."""
    number = 0
    with contextlib.closing(_open_any(path, None)) as file:
        for load in file.loads(4 << 20):
            try:
                text = load(None)
            except LineTooLong as error:
                raise error.within(path, number) from None
            found = bytes(text.buffer[text.start : text.end]).split(b"\n")
            for line in found if text.unterminated else found[:-1]:
                number += 1
                yield number, line.removesuffix(b"\r")


def shown(token: bytes) -> str:
    """Format a token for messages: printable, quoted, shortened."""
    text = token if len(token) <= _LONGEST else token[:_LONGEST] + b"..."
    return "'" + _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text.decode("ascii", "backslashreplace")) + "'"


def separator_in(head: bytes) -> bytes:
    """Return the separator if a text with this beginning has a header of column names; else b""."""
    line = head.partition(b"\n")[0].removesuffix(b"\r")
    if line.lstrip().startswith(b"#") or CELL.search(line):
        return b""
    for separator in (b"\t", b","):
        cells = [cell.strip().strip(b'"') for cell in line.split(separator)]
        if len(cells) > 1 and all(cells) and not any(map(NUMBER.match, cells)):
            return separator
    return b""
