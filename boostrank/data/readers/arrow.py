"""Arrow files: Feather 2, IPC files and streams."""

from boostrank.data.readers import ReaderSpec
from boostrank.data.tables.reader import ARROW

SPEC = ReaderSpec(
    "arrow", ARROW.read, ARROW.stream, ARROW.pieces, (".arrow", ".feather", ".ipc", ".arrows"),
    aliases=("feather", "ipc"), table=ARROW,
)  # fmt: skip
