"""Decompression as a stream: whole members, one behind the other, in little memory."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from boostrank.core.errors import FileFormatError, MissingDependency

LONGEST_MAGIC = 6
_AT_A_TIME = 1 << 20
_XZ_MEMORY = 256 << 20  # `xz -9` needs 65 MiB; the format allows a damaged or hostile file to ask for 4 GiB
_ZSTD = struct.pack("<I", 0xFD2FB528)
_ZSTD_SKIPPABLE = tuple(struct.pack("<I", 0x184D2A50 + i) for i in range(16))  # pzstd puts one before each frame


def zstd_module() -> Any:
    """Python's own, or its backport.

    Raises:
        MissingDependency: there is neither.
    """
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


# first bytes -> (name, what makes the decompressor of a member)
_FORMATS: dict[tuple[bytes, ...], tuple[str, Callable[[], Any]]] = {
    (b"\x1f\x8b",): ("gzip", partial(zlib.decompressobj, 16 + zlib.MAX_WBITS)),
    (b"BZh",): ("bzip2", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00",): ("xz", partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, _XZ_MEMORY)),
    (_ZSTD, *_ZSTD_SKIPPABLE): ("zstd", lambda: zstd_module().ZstdDecompressor()),
}


def is_packed(head: bytes) -> bool:
    """Whether data that begins so is compressed in a way that `Unpacker` reads."""
    return _format(head) is not None


def _format(head: bytes) -> tuple[str, Callable[[], Any]] | None:
    return next((made for magic, made in _FORMATS.items() if head.startswith(magic)), None)


class Unpacker:
    """The text behind compressed bytes.

    Args:
        read: gives up to so many compressed bytes, b"" at their end.
        head: those that were read already; `is_packed(head)`.
        name: for messages.

    Raises:
        MissingDependency: zstd, and no library for it.
    """

    def __init__(self, read: Callable[[int], bytes], head: bytes, name: str) -> None:
        made = _format(head)
        assert made is not None
        self._format, self._make = made
        self._read, self._packed, self._name = read, head, name
        self._member: Any = self._make()
        # zstd's own error is an Exception of its module, which exists by now
        self._damage: tuple[type[Exception], ...] = (zlib.error, lzma.LZMAError, OSError, ValueError)
        if self._format == "zstd":
            self._damage += (zstd_module().ZstdError,)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of text; b"" behind the last member, whose checksum has then been found right.

        Raises:
            FileFormatError: the data is truncated or damaged.
        """
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
                    raise FileFormatError(f"the {self._format} data is truncated: nothing of it is used",
                                          file=self._name)  # fmt: skip
            try:
                text = self._member.decompress(self._packed, size)
            except self._damage as error:
                raise FileFormatError(f"the {self._format} data is damaged: {error}", file=self._name) from None
            self._packed = getattr(self._member, "unconsumed_tail", b"")
            if self._member.eof:
                self._packed, self._member = self._member.unused_data, None
            if text:
                return bytes(text)
