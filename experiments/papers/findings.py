"""Findings of an experiment: tables, written to its out folder."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from boostrank.core.files import write_atomically
from experiments.common import data_root
from experiments.papers.cells import OUT, Lab


@dataclass(frozen=True)
class Findings:
    """Args: title; (heading, Markdown) pairs."""

    title: str
    tables: Sequence[tuple[str, str]]

    def text(self) -> str:
        """Markdown, without the title."""
        return "\n\n".join(f"### {heading}\n\n{table}" for heading, table in self.tables)

    def write(self, name: str) -> None:
        """Tables as out/NAME.md."""
        OUT.mkdir(parents=True, exist_ok=True)
        write_atomically(OUT / f"{name}.md", f"# {self.title}\n\n{self.text()}\n".encode())


def lab_of(folder: Path | None, threads: int = 1) -> Lab:
    """A lab on the OHSUMED folds, wherever they are."""
    return Lab(data_root(folder) / "ohsumed", threads)


def main(name: str, run: Callable[[Lab], Findings], about: str | None) -> None:
    """The command line of one experiment."""
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    parser.add_argument("--data-root", type=Path, default=None, help="folder of the real data sets")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    findings = run(lab_of(options.data_root, options.threads))
    findings.write(name)
    print(findings.text())
