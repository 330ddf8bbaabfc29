"""HTML whose text is always escaped: what comes from files cannot become markup."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_EMPTY = {"circle", "line", "meta", "path", "rect"}


class Markup(str):
    """Text that is HTML already; `tag` and `join` make it, and nothing else should."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element.

    Args:
        name: of the element.
        children: markup, or anything else, whose text is escaped; None is left out.
        attributes: escaped values; `class_` stands for class, `_` for a hyphen; None is left out, True has no value.
    """
    attribute_text = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value), quote=True)}"')
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY and not children:
        return Markup(f"<{name}{attribute_text}/>")
    return Markup(f"<{name}{attribute_text}>{join(*children)}</{name}>")


def join(*parts: Any) -> Markup:
    """One after the other; None is left out."""
    return Markup("".join(p if isinstance(p, Markup) else escape(str(p), quote=True) for p in parts if p is not None))


def bdi(text: Any) -> Markup:
    """A text from a file, whose direction of writing ends with it."""
    return tag("bdi", text)


def data_block(value: Any, **attributes: Any) -> Markup:
    """Data for the page's script, which no parser of HTML takes for markup.

    Raises:
        ValueError: NaN or an infinity.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Markup(text), type="application/json", **attributes)
