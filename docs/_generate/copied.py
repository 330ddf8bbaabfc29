"""Pages whose text stands outside `docs/`: the experiments, CHANGELOG and CONTRIBUTING, their links made to fit."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def research_pages() -> dict[str, str | bytes]:
    """Every README under `experiments/` as `research/NAME.md`, in alphabetical order."""
    return {_page(path): _moved(path, _page(path)) for path in _readmes()}


def root_pages() -> dict[str, str | bytes]:
    """CHANGELOG and CONTRIBUTING."""
    names = ("CHANGELOG.md", "CONTRIBUTING.md")
    return {name.lower(): _moved(Path(name), name.lower()) for name in names}


def _readmes() -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in (ROOT / "experiments").glob("**/README.md"))


def _page(readme: Path) -> str:
    return f"research/{'-'.join(readme.parent.parts[1:])}.md"


def _moved(source: Path, uri: str) -> str:
    """The text, with links from where it will stand; what is no page of the site becomes its name alone."""
    targets = {path.as_posix(): _page(path) for path in _readmes()}
    targets |= {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(source.parent.as_posix(), target))
        page = targets.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if page is None:
            return text
        return f"[{text}]({posixpath.relpath(page, posixpath.dirname(uri) or '.')}{anchor})"

    return _LINK.sub(link, (ROOT / source).read_text(encoding="utf-8"))
