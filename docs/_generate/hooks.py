"""MkDocs hooks: pages that are made from the code, and from files that stand elsewhere, at every
build.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import api
import command_pages
import copied
import notebooks
import objective_pages

_MADE = {
    "objectives/": objective_pages.pages,
    "api/": api.pages,
    "commands/": command_pages.pages,
    "research/": copied.research_pages,
}


def on_config(config: Any) -> Any:
    """Put the made pages into the navigation, where a folder stands for them."""
    config.extra["made"] = {folder: make() for folder, make in _MADE.items()}
    config.nav = _filled(config.nav, config.extra["made"])
    return config


def _filled(nav: Any, made: dict[str, dict[str, str | bytes]]) -> Any:
    if isinstance(nav, list):
        return [_filled(entry, made) for entry in nav]
    if isinstance(nav, dict):
        return {title: _filled(entry, made) for title, entry in nav.items()}
    if nav in made:
        pages = [uri for uri in made[nav] if uri.endswith(".md")]
        if nav == "research/":  # titles there are questions
            return [
                "research/index.md",
                *({Path(uri).stem.replace("-", ": "): uri} for uri in pages),
            ]
        return pages
    return nav


def on_files(files: Files, config: Any) -> Files:
    """Hand them to MkDocs."""
    pages = {
        uri: content for made in config.extra.pop("made").values() for uri, content in made.items()
    }
    for uri, content in (pages | copied.root_pages() | notebooks.pages()).items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link to the pages of experiments where the sources link to their files."""
    return copied.relinked(markdown, Path("docs", page.file.src_uri), page.file.src_uri)
