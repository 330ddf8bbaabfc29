"""All experiments after the papers, and one page of their results: `make experiment NAME=papers`.

python -m experiments.papers.run [--only methods,annealing]
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from boostrank.core.files import write_atomically
from experiments.papers.cells import OUT, console
from experiments.papers.findings import lab_of

EXPERIMENTS = (
    "methods",
    "annealing",
    "restarts",
    "smooth_dcg",
    "training_k",
    "discount",
)


def main() -> None:
    """Run what is not on disk yet, and write out/summary.md."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-root", type=Path, default=None, help="folder of the real data sets")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default=",".join(EXPERIMENTS), help="comma-separated")
    options = parser.parse_args()
    lab = lab_of(options.data_root, options.threads)
    parts = ["# The papers' experiments on OHSUMED"]
    for name in options.only.split(","):
        console.rule(name)
        findings = import_module(f"experiments.papers.{name}.run").run(lab)
        findings.write(name)
        parts.append(f"## {findings.title}\n\n{findings.text()}")
        write_atomically(OUT / "summary.md", ("\n\n".join(parts) + "\n").encode())
    console.print(f"{lab.trained} trained, {lab.seconds:.0f} s of CPU; {OUT / 'summary.md'}")


if __name__ == "__main__":
    main()
