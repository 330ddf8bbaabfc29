"""Every objective at scores of any size, in lists of any length: the table of worst errors.

    python -m qa.numerics [--out FILE] [--rounds N] [--documents N] [OBJECTIVE ...]

Exit status 1: an error above what docs/design/numerics.md states.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from boostrank.core.queries import QueryIndex
from boostrank.objectives import OBJECTIVES
from qa.numerics import large
from qa.numerics.accuracy import (
    bounds,
    default_values,
    every_size,
    huge_sizes,
    labels_of,
    variants,
    worst_error,
)

_SUM_TO_ZERO, _SAME_IN_ANY_ORDER = 1e-10, 1e-11
_CHAINS = {"smooth-ndcg": 1e-7}  # whose places are counted from the first document of a run
# Beside few documents, those for which the twin is too slow: eq (10) term by term, and n^3 places.
_SLOW_TWINS = ("smooth-ndcg", "soft-ndcg")
_LIST, _LONG_LIST = 49, 900


class Found(NamedTuple):
    """A row of the table."""

    objective: str
    what: str
    error: float
    where: str
    bound: float

    @property
    def holds(self) -> bool:
        return bool(self.error <= self.bound)


def _worst(objective: str, what: str, bound: float, errors: list[tuple[float, str]]) -> Found:
    error, where = max(errors, default=(0.0, ""), key=lambda pair: pair[0])
    return Found(objective, what, error, where, bound)


def _changed(spec: Any, values: Any) -> str:
    return ", ".join(f"{k}={v}" for k, v in values.items() if v != default_values(spec)[k])


def _accuracy(spec: Any, rounds: int) -> Iterator[Found]:
    stated, rng = bounds()[spec.name], np.random.default_rng(1)
    errors = []
    for _ in range(rounds):
        for values in variants(spec):
            changed = _changed(spec, values)
            for family in (every_size, huge_sizes):
                for what, scores in family(rng, int(rng.integers(5, 9))):
                    error = worst_error(spec, labels_of(rng, len(scores)), scores, values)
                    errors.append((error, " ".join(filter(None, [what, changed]))))
    yield _worst(spec.name, "few documents", stated.pairs, errors)
    if "sums" not in default_values(spec):
        return
    errors = []
    for length in (_LIST, _LONG_LIST):
        by_pairs = length > _LIST or spec.name in _SLOW_TWINS
        for values in variants(spec) if by_pairs else [default_values(spec)]:
            changed = _changed(spec, values)
            for what, scores in every_size(rng, length):
                query = labels_of(rng, length)
                error = worst_error(spec, query, scores, values | {"sums": "fast"}, by_pairs)
                errors.append((error, f"{what}, {length} documents {changed}"))
            for what, scores in huge_sizes(rng, length):
                # Finite is all that is promised.
                query = labels_of(rng, length)
                if not np.isfinite(
                    worst_error(spec, query, scores, values | {"sums": "fast"}, True)
                ):
                    errors.append((float("inf"), f"{what}, {length} documents {changed}"))
    yield _worst(spec.name, "fast", stated.fast, errors)


def _large(spec: Any, documents: int) -> Iterator[Found]:
    lists = [
        ranking for ranking in large.hard_lists(documents) if large.sums_to_zero(spec, ranking[0])
    ]
    if lists:
        errors = [(large.sum_of_gradient(spec, y, s), what) for what, y, s in lists]
        bound = _CHAINS.get(spec.name, _SUM_TO_ZERO)
        yield _worst(spec.name, f"sum over {documents:,} documents", bound, errors)
    errors = [
        (large.change_by_order(spec, y, s), what)
        for what, y, s in large.hard_lists(3000)
        if spec.name not in large.BY_ORDER or np.unique(s).size == s.size
    ]
    yield _worst(spec.name, "another order of documents", _SAME_IN_ANY_ORDER, errors)
    rng = np.random.default_rng(0)
    sizes = np.concatenate(
        [np.ones(documents, np.int64), rng.integers(2, 60, documents // 1000 + 1)]
    )
    labels, scores = rng.integers(0, 5, sizes.sum()), rng.normal(size=sizes.sum())
    kinds = len(large.bytes_by_threads(spec, labels, QueryIndex.from_sizes(sizes), scores))
    yield Found(spec.name, f"threads, {documents:,} queries of one document", kinds - 1.0, "", 0.0)


def main() -> int:
    """Measure, write, say what is above its bound."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("objectives", nargs="*", help="all by default")
    parser.add_argument(
        "--out", type=Path, default=Path("numerics.md"), help="where the table goes"
    )
    parser.add_argument("--rounds", type=int, default=3, help="sets of scores of every kind")
    parser.add_argument("--documents", type=int, default=1_000_000, help="of the longest list")
    arguments = parser.parse_args()
    warnings.simplefilter("error", RuntimeWarning)
    findings = []
    for spec in OBJECTIVES:
        if arguments.objectives and spec.name not in arguments.objectives:
            continue
        started = time.perf_counter()
        for finding in (*_accuracy(spec, arguments.rounds), *_large(spec, arguments.documents)):
            findings.append(finding)
            verdict = "ok " if finding.holds else "BAD"
            sys.stdout.write(
                f"{verdict} {finding.objective:16} {finding.error:8.1e} {finding.what}"
                f" {finding.where}\n"
            )
        sys.stdout.write(f"    {time.perf_counter() - started:.0f} s\n")
        sys.stdout.flush()
    if not arguments.objectives:
        with tempfile.TemporaryDirectory() as folder:
            models = large.models_by_form(Path(folder), 10_000)
        other = [form for form, text in models.items() if text != models["arrays"]]
        findings.append(
            Found(
                "all",
                f"the same model from {', '.join(models)}",
                float(len(other)),
                ", ".join(other),
                0.0,
            )
        )
    lines = [
        "# Numbers at the edge: worst errors",
        "",
        "| objective | what | worst | where | stated | |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for finding in findings:
        cells = (
            finding.objective,
            finding.what,
            f"{finding.error:.1e}",
            finding.where,
            f"{finding.bound:g}",
            "" if finding.holds else "above",
        )
        lines.append(f"| {' | '.join(cells)} |")
    arguments.out.write_text("\n".join([*lines, ""]), encoding="utf-8")
    bad = [finding for finding in findings if not finding.holds]
    sys.stdout.write(f"{len(findings) - len(bad)} of {len(findings)} hold: {arguments.out}\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
