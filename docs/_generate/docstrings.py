"""A Griffe extension: `low, high: bounds` in a docstring stands for two arguments."""

from __future__ import annotations

import re
from typing import Any

import griffe

_SEVERAL = re.compile(r"^( +)((?:\w+, )+\w+): ", re.MULTILINE)


class SeveralArguments(griffe.Extension):
    """Write each name of such a line on a line of its own, with the same text."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every object once its members are known."""
        if obj.docstring is not None:
            obj.docstring.value = "\n".join(_split(obj.docstring.value.split("\n")))


def _split(lines: list[str]) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(lines):
        head = _SEVERAL.match(lines[at])
        if head is None:
            out.append(lines[at])
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end].startswith(head[1] + " "):
            end += 1
        rest = lines[at][head.end() :]
        for name in head[2].split(", "):
            out += [f"{head[1]}{name}: {rest}", *lines[at + 1 : end]]
        at = end
    return out
