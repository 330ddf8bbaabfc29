"""Page: a whole document in one file; it loads nothing, and its policy forbids it to."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from os import PathLike
from typing import Any, Protocol

from boostrank.report.html.markup import Markup, bdi, data_block, tag
from boostrank.report.html.vega import need_report_extra, theme, vega_script

_GENERATOR, _HEAD = "boostrank", 2000
# Before the first paint, so that what the script folds is not seen unfolded first.
_EARLY = 'document.documentElement.classList.add("js");'


class Drawn(Protocol):
    """A chart or a table: what has a name on the page and draws itself."""

    @property
    def name(self) -> str: ...

    @property
    def needs_script(self) -> bool: ...

    def draw(self) -> Markup: ...


@dataclass(frozen=True, eq=False)
class Beside:
    """Parts side by side where there is room, below each other elsewhere."""

    parts: Sequence[Part]


@dataclass(frozen=True, eq=False)
class Fold:
    """Parts that a reader opens; in print they are open, and of a page with `short_print` left out."""

    title: str
    parts: Sequence[Part]


Part = Markup | Drawn | Beside | Fold | str
"""What a section is made of; plain text is a paragraph."""


@dataclass(frozen=True, eq=False)
class PageSection:
    """A part of a page that the navigation leads to.

    Args:
        name: unique on the page: "importance".
        title: its heading.
        parts: what it holds.
        short: what the navigation says; "" for the title.
        brief: what it comes to, in a sentence or two, for the top of the page; "" for nothing.
    """

    name: str
    title: str
    parts: Sequence[Part]
    short: str = ""
    brief: Markup | str = ""


def page(
    title: str,
    sections: Sequence[PageSection],
    *,
    summary: Sequence[Part] = (),
    heading: Markup | None = None,
    short_print: bool = False,
) -> str:
    """The document.

    Args:
        title: text, also from a file.
        sections: in order; with two or more there is a navigation.
        summary: what stands above the sections.
        heading: the title in markup, where its parts come from different files.
        short_print: paper gets what is open on the screen, and the first rows of each table; otherwise everything.

    Raises:
        MissingDependency: there are charts, and the extra `report` is not installed.
        ValueError: two parts of one name.
    """
    parts = [*summary, *(part for section in sections for part in section.parts)]
    drawn = drawn_in(parts)
    names = [section.name for section in sections] + [part.name for part in drawn]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two parts of a page have one name: {', '.join(sorted(twice))}")
    charts = any(part.needs_script for part in drawn)
    scripts = [vega_script()] if charts else []
    scripts.append(_own("script.js"))
    links = [tag("a", section.short or section.title, href=f"#{section.name}") for section in sections]
    briefs = [
        tag("li", link, " ", tag("span", section.brief))
        for link, section in zip(links, sections, strict=True)
        if section.brief
    ]
    listed = tag("ul", *(tag("li", link) for link in links))
    navigation = tag("nav", listed, aria_label="Sections") if len(sections) > 1 else None
    brief = tag("ul", *briefs, class_="brief") if briefs else None
    whole = [tag("section", tag("h2", s.title) if s.title else None, *map(draw, s.parts), id=s.name) for s in sections]
    main = tag("main", *map(draw, summary), brief, *whole)
    themes = data_block({"light": theme(), "dark": theme(dark=True)}, id="themes") if charts else None
    button = tag("button", "Dark", type="button", id="theme", hidden=True)
    body = tag(
        "body",
        tag("header", tag("h1", heading or bdi(title)), button, class_="top"),
        tag("div", navigation, main, class_="with-nav" if navigation else "alone"),
        themes,
        *(tag("script", Markup(script)) for script in scripts),
    )
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in (_EARLY, *scripts))
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src "
    policy += " ".join(f"'sha256-{digest}'" for digest in digests)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="generator", content=_GENERATOR),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(_own("style.css"))),
        tag("script", Markup(_EARLY)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en', class_='short-print' if short_print else None)}\n"


def draw(part: Part) -> Markup:
    """A part as markup."""
    if isinstance(part, Markup):
        return part
    if isinstance(part, str):
        return tag("p", part)
    if isinstance(part, Beside):
        return tag("div", *map(draw, part.parts), class_="beside")
    if isinstance(part, Fold):
        return tag("details", tag("summary", part.title), tag("div", *map(draw, part.parts)))
    return part.draw()


def drawn_in(parts: Iterable[Part]) -> list[Drawn]:
    """The charts and tables among parts, those within parts too."""
    found: list[Drawn] = []
    for part in parts:
        if isinstance(part, Beside | Fold):
            found += drawn_in(part.parts)
        elif not isinstance(part, str):
            found.append(part)
    return found


def is_page(path: str | PathLike[str]) -> bool:
    """Whether a file is a page that was made here, by its head."""
    with open(path, "rb") as file:
        return f'content="{_GENERATOR}"'.encode() in file.read(_HEAD)


def page_of(result: Any, name: str) -> str:
    """The page of the result of an analysis, by `whole_page` of the module `page` beside that of its class.

    Args:
        result: such as `Why`.
        name: what its model or its data are called; "" for nothing.

    Raises:
        MissingDependency: the extra `report` is not installed.
    """
    need_report_extra()
    beside = import_module(f"{type(result).__module__.rpartition('.')[0]}.page")
    return str(beside.whole_page(result, name))


@cache
def _own(name: str) -> str:
    return files("boostrank.report.html").joinpath(name).read_text("utf-8")
