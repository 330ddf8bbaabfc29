"""The description that a package index shows: README, its relative links made absolute."""

import re
from pathlib import Path

from setuptools import setup

REPOSITORY = "https://github.com/boostrank/boostrank"


def make_links_absolute(readme: str, tag: str) -> str:
    """Links lead to the files of a tag, pictures to their bytes."""

    def link(match: re.Match[str]) -> str:
        exclamation, text, target = match.groups()
        if re.match(r"#|\w+:", target):
            return match[0]
        kind = "raw" if exclamation else "blob"
        return f"{exclamation}[{text}]({REPOSITORY}/{kind}/{tag}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, readme)


if __name__ == "__main__":
    root = Path(__file__).parent
    core = (root / "boostrank" / "core" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'__version__ = "(.+)"', core)[1]
    tag = "main" if "dev" in version else f"v{version}"
    setup(
        long_description=make_links_absolute((root / "README.md").read_text(encoding="utf-8"), tag),
        long_description_content_type="text/markdown",
    )
