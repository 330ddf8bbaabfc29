"""Pages whose text stands outside `docs/`: the experiments, CHANGELOG and CONTRIBUTING, their links
made to fit.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def research_pages() -> dict[str, str | bytes]:
    """Every README under `experiments/` as `research/NAME.md`, in alphabetical order."""
    return {_page(path): relinked(_text(path), path, _page(path)) for path in _readmes()}


def root_pages() -> dict[str, str | bytes]:
    """CHANGELOG and CONTRIBUTING."""
    names = ("CHANGELOG.md", "CONTRIBUTING.md")
    return {name.lower(): relinked(_text(Path(name)), Path(name), name.lower()) for name in names}


def _readmes() -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in (ROOT / "experiments").glob("**/README.md"))


def _page(readme: Path) -> str:
    return f"research/{'-'.join(readme.parent.parts[1:])}.md"


def relinked(text: str, source: Path, uri: str) -> str:
    """Return the text of a file of the repository with its links changed to pages of the site, from
    the page at `uri`.

    A link to a file that has no page is replaced by its text.
    """
    targets = {path.as_posix(): _page(path) for path in _readmes()}
    targets |= {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
    notebooks = (ROOT / "docs" / "guide").glob("*.ipynb")
    targets |= {f"docs/guide/{path.name}": f"guide/{path.stem}.md" for path in notebooks}

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(source.parent.as_posix(), target))
        page = targets.get(path) or (
            path.removeprefix("docs/") if path.startswith("docs/") else None
        )
        if page is None:
            return text
        return f"[{text}]({posixpath.relpath(page, posixpath.dirname(uri) or '.')}{anchor})"

    return _LINK.sub(link, text)


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
