"""Arrow files: Feather 2, IPC files and streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from boostrank.data.columnar import ColumnarSource
from boostrank.data.source import Format
from boostrank.data.tables import arrow

FILE, STREAM = b"ARROW1", b"\xff\xff\xff\xff"


class ArrowSource(ColumnarSource):
    """Source of Arrow files; see `Source`."""

    name = "Arrow"

    def open_batches(self, file: Any) -> tuple[Any, int | None, Callable[[list[int], int], Iterator[Any]]]:
        ipc = arrow(".ipc")
        is_stream = bytes(file.read(len(STREAM))) == STREAM
        file.seek(0)
        schema = (ipc.open_stream if is_stream else ipc.open_file)(file).schema

        def batches(places: list[int], _: int) -> Iterator[Any]:
            options = ipc.IpcReadOptions(included_fields=places)
            file.seek(0)
            if is_stream:
                yield from ipc.open_stream(file, options=options)
                return
            opened = ipc.open_file(file, options=options)
            for i in range(opened.num_record_batches):
                yield opened.get_batch(i)

        return schema, None, batches


SPEC = Format(
    "arrow",
    ArrowSource,
    (".arrow", ".feather", ".ipc", ".arrows"),
    aliases=("feather", "ipc"),
    begins=(FILE, STREAM),
    is_table=True,
)
