"""Several files as one stream of chunks, in order, parsed by threads."""

from __future__ import annotations

import contextlib
import glob
import os
import queue
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, BinaryIO, TypeVar

from boostrank.core.errors import FileFormatError, ParameterError
from boostrank.data.libsvm.blocks import Block
from boostrank.data.libsvm.chunks import MAX_LINE, PADDING, LineTooLong, Load, Source, Text, open_source
from boostrank.data.libsvm.parser import LINES
from boostrank.data.libsvm.side_files import GROUP_SUFFIXES, WEIGHT_SUFFIX

T = TypeVar("T")

OneSource = str | os.PathLike[str] | BinaryIO
AnySource = OneSource | Sequence[OneSource]

_SMALLEST_CHUNK = 1 << 20  # smaller ones cost more to hand out than they save by spreading evenly
_STREAM_CHUNK = 4 << 20  # chunks of a stream wait in memory for their parser
_AHEAD = 2


def expand(source: AnySource) -> list[OneSource]:
    """The files that are meant: a name with `*`, `?` or `[...]` that is no file stands for those that match, sorted.

    Sidecars of files that match are left out.

    Raises:
        FileFormatError: nothing matches.
        ParameterError: nothing at all is given, or one of them twice.
    """
    found: list[OneSource] = []
    for one in source if isinstance(source, Sequence) and not isinstance(source, str) else [source]:
        found += matching(os.fspath(one)) if isinstance(one, (str, os.PathLike)) else [one]
    if not found:
        raise ParameterError("no file is given")
    seen = set()
    for path in (one for one in found if isinstance(one, str)):
        real = path if path == "-" else os.path.realpath(path)
        if real in seen:
            raise ParameterError(f"{'standard input' if path == '-' else path} is given twice as part of one data set")
        seen.add(real)
    return found


def matching(path: str) -> list[str]:
    """The path itself, or, if it is a pattern and no file, the files that match.

    Raises:
        FileFormatError: nothing matches.
    """
    if path == "-" or not glob.has_magic(path) or os.path.exists(path):
        return [path]
    found = set(glob.glob(path, recursive=True))
    beside = {one + suffix for one in found for suffix in (*GROUP_SUFFIXES, WEIGHT_SUFFIX)}
    files = sorted(found - beside)
    if not files:
        raise FileFormatError("no file matches", file=path)
    return files


class Opened:
    """Sources, one behind the other: each is opened when its turn comes, checked and closed when it has been read.

    Args:
        sources: as `expand` gives them.
        max_bytes: refuse more text than this, all files together.
        open_one: opens one of them.

    Attributes:
        first: the first of them, open.
        total: bytes to be read, None when that is not known.
    """

    def __init__(
        self, sources: Sequence[OneSource], max_bytes: int | None = None, open_one: Callable[..., Any] = open_source
    ) -> None:
        self._sources, self._max_bytes, self._text, self._before = sources, max_bytes, 0, 0
        self._open_one = open_one
        self._open: list[Source] = []
        self._current: Source | None = None
        sizes = [size_of(one) for one in sources]
        self.total = None if None in sizes else sum(size for size in sizes if size is not None)
        self.first = self._next(0)

    @property
    def done(self) -> int:
        """Bytes read so far, of the files themselves where they are compressed."""
        return self._before + (self._current.done if self._current else 0)

    def _next(self, i: int) -> Source:
        left = None if self._max_bytes is None else self._max_bytes - self._text
        source: Source = self._open_one(self._sources[i], left)
        self._open.append(source)
        self._current = source
        return source

    def loads(self, chunk_bytes: int, threads: int) -> Iterator[tuple[Source, Load]]:
        """(the source, a chunk of it), in order; a source is not closed before `leave`."""
        for i in range(len(self._sources)):
            source = self._next(i) if i else self.first
            size = min(chunk_bytes, MAX_LINE)
            if source.total is not None:  # several chunks a thread, or the last one keeps the others waiting
                size = min(size, max(source.total // (4 * threads), _SMALLEST_CHUNK))
            if source.is_packed or source.total is None:
                size = min(size, _STREAM_CHUNK)
            any_load = False
            chunks = source.loads(size)
            for load in _ahead(source, chunks) if source.is_packed else chunks:
                any_load = True
                yield source, load
            if not any_load:
                yield source, lambda buffer: Text(buffer or bytearray(len(PADDING)), 0, 0)
            self._text += source.text_bytes
            self._current, self._before = None, self._before + source.done

    def leave(self, source: Source) -> None:
        """All chunks of the source were read.

        Raises:
            FileFormatError: the file changed meanwhile.
        """
        if source.changed:
            words = "the file changed while it was read: read it again when it is complete"
            raise FileFormatError(words, file=source.name)
        source.close()
        self._open.remove(source)

    def close(self) -> None:
        """Let go of what was opened."""
        for source in self._open:
            source.close()


def parsed(
    opened: Opened, parse: Callable[[Load], Block], chunk_bytes: int, threads: int
) -> Iterator[tuple[Source, Block]]:
    """(source, block) for every chunk of all sources, in order; at most two more than there are threads are under way.

    Every source gives a block, if an empty one; a source has been checked and closed when the next one's block comes.

    Raises:
        FileFormatError: a source that cannot be opened or read, that changed meanwhile, or has a line without end.
    """
    source, lines = opened.first, 0
    for current, result in _submitted(opened.loads(chunk_bytes, threads), parse, threads):
        if current is not source:
            opened.leave(source)
            source, lines = current, 0
        try:
            block = result()
        except LineTooLong as error:
            raise error.within(source.name, lines) from None
        lines += int(block.counts[LINES])
        yield source, block
    opened.leave(source)


def _submitted(
    loads: Iterator[tuple[Source, Load]], parse: Callable[[Load], Block], threads: int
) -> Iterator[tuple[Source, Callable[[], Block]]]:
    if threads <= 1:
        for source, load in loads:
            yield source, partial(parse, load)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="boostrank-read")
    waiting: deque[tuple[Source, Callable[[], Block]]] = deque()
    try:
        for source, load in loads:
            waiting.append((source, pool.submit(parse, load).result))
            if len(waiting) > threads + 1:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        pool.shutdown(cancel_futures=True)
        loads.close()  # type: ignore[attr-defined]


def _ahead(source: Source, items: Iterator[T]) -> Iterator[T]:
    """The items, made by a thread of their own, which is some of them ahead."""
    made: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(_AHEAD)
    given_up = threading.Event()

    def work() -> None:
        try:
            for item in items:
                made.put((True, item))
                if given_up.is_set():
                    return
            made.put((False, None))
        except BaseException as error:
            made.put((False, error))

    thread = threading.Thread(target=work, name="boostrank-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            good, item = made.get()
            if not good:
                if isinstance(item, BaseException):
                    raise item
                return
            yield item  # type: ignore[misc]
    finally:
        given_up.set()
        while thread.is_alive():  # one that waits for a silent pipe is left to itself: it ends with the process
            with contextlib.suppress(queue.Empty):
                made.get_nowait()
            thread.join(0.05)
            if source.path is None:
                break


def size_of(source: OneSource) -> int | None:
    """Bytes of a regular file, None of anything else.

    Raises:
        FileFormatError: there is no such file, found before the files in front of it are read.
    """
    if not isinstance(source, (str, os.PathLike)) or source == "-":
        return None
    try:
        info = os.stat(source)
    except OSError as error:
        raise FileFormatError(str(error.strerror), file=os.fspath(source)) from None
    return info.st_size if stat.S_ISREG(info.st_mode) else None


def place_of_row(source: AnySource, row: int) -> tuple[str, int] | None:
    """(file, line) of a row, counted from 0 through all files; None where they can be read only once, or have fewer."""
    files = expand(source)
    if any(size_of(one) is None for one in files):
        return None
    for one in files:
        opened, lines = open_source(one, None), 0
        with contextlib.closing(opened):
            for load in opened.loads(_STREAM_CHUNK):
                text = load(None)
                found = bytes(text.buffer[text.start : text.end]).split(b"\n")
                for line in found if text.unterminated else found[:-1]:
                    lines += 1
                    if line.strip() and not line.lstrip().startswith(b"#"):
                        if row == 0:
                            return opened.name, lines
                        row -= 1
    return None
