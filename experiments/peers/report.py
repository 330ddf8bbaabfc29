"""Tables of the measurements within one budget; a method that is not complete there is
not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from boostrank.core.resampling import PairedDifference
from experiments.common import interval, markdown, save
from experiments.peers.cells import Budget, Cell
from experiments.peers.statistics import (
    Compared,
    Values,
    against,
    luck,
    mean_ranks,
    pooled,
    set_weights,
)
from experiments.peers.store import Store


@dataclass(frozen=True)
class Collected:
    """What a budget gave.

    Args:
        measured: complete method -> set -> NDCG@10 of each query.
        tried: the same, averaged over all settings of the trees that were tried.
        models: the same of each final model, fold by fold.
        rounds, seconds: complete method -> median over its final models: best round, and training
            time.
        open: methods that are not complete: what is missing, in words.
    """

    measured: dict[str, dict[str, Values]]
    tried: dict[str, dict[str, Values]]
    models: dict[str, list[tuple[str, Values]]]
    rounds: dict[str, float]
    seconds: dict[str, float]
    open: dict[str, str]


def collect(cells: Sequence[Cell], budget: Budget, store: Store) -> Collected:
    """The methods whose every cell has spent this very budget, and what the others lack."""
    measured: dict[str, dict[str, Values]] = {}
    tried: dict[str, dict[str, Values]] = {}
    models, rounds, seconds, still_open = {}, {}, {}, {}
    for name in dict.fromkeys(cell.method.name for cell in cells):
        own = [cell for cell in cells if cell.method.name == name]
        found = [(cell, cell.outcome(budget, store)) for cell in own]
        done = [(cell, outcome) for cell, outcome in found if outcome is not None]
        if len(done) < len(own):
            errors = [error for cell in own if (error := cell.error(budget, store))]
            still_open[name] = (
                f"failed: {errors[0]}" if errors else f"{len(done)} of {len(own)} cells"
            )
            continue
        places = dict.fromkeys(cell.place.name for cell in own)
        measured[name] = {
            place: np.concatenate(
                [values for cell, (values, _) in done if cell.place.name == place]
            )
            for place in places
        }
        every = [
            (cell.place.name, values)
            for cell in own
            if (values := cell.tried(budget, store)) is not None
        ]
        tried[name] = {
            place: np.concatenate([values for of, values in every if of == place])
            for place in places
        }
        models[name] = [
            (cell.place.name, np.array([run["test"] for run in finals], dtype=np.float64))
            for cell, (_, finals) in done
        ]
        runs = [run for _, (_, finals) in done for run in finals]
        rounds[name] = float(np.median([run["rounds"] for run in runs]))
        seconds[name] = float(np.sum([run["seconds"] for run in runs]))
    return Collected(measured, tried, models, rounds, seconds, still_open)


def write(
    path: Path,
    cells: Sequence[Cell],
    budget: Budget,
    store: Store,
    reference: str,
    skipped: Mapping[str, str],
) -> str:
    """Write the Markdown and the numbers as JSON, and return the Markdown."""
    found = collect(cells, budget, store)
    stage, sets = cells[0].place.stage, {cell.place.name: cell.place for cell in cells}
    about = (
        f"Stage {stage}; {budget}; at most {cells[0].length.rounds} rounds, stopped after"
        f" {cells[0].length.patience} without gain. Outer folds:"
        f" {', '.join(f'{name} {place.count}' for name, place in sets.items())}. NDCG@10,"
        " exponential gain, mean over ties, queries without a relevant document left out."
    )
    parts = [about]
    numbers: dict[str, Any] = {"about": about, "methods": {}}
    if found.measured:
        anchor = reference if reference in found.measured else next(iter(found.measured))
        compared = against(found.measured, found.models, anchor)
        parts += _tables(found, compared, anchor)
        numbers = _numbers(numbers, found, compared, anchor)
    listed = [f"* {name}: {words}" for name, words in {**found.open, **skipped}.items()]
    if listed:
        parts.append(
            "Not shown, since only complete methods with equal budgets are compared:\n\n"
            + "\n".join(listed)
        )
    save(path, "\n\n".join(parts), numbers | {"not shown": {**found.open, **skipped}})
    return path.read_text()


def _tables(found: Collected, compared: Mapping[str, Compared], anchor: str) -> list[str]:
    names, sets = list(found.measured), list(found.measured[anchor])
    weights = set_weights(found.measured, anchor)
    values = [pooled(found.measured, name) for name in names]
    ranks = dict(zip(names, mean_ranks(values, weights), strict=True))
    mean = {
        name: float(np.mean([np.nanmean(v) for v in found.measured[name].values()]))
        for name in names
    }
    order = sorted(names, key=lambda name: -mean[name])
    all_sets = [
        [
            name,
            f"{mean[name]:.4f}",
            f"{ranks[name]:.2f}",
            *_difference(compared.get(name), "by_set"),
            *_difference(compared.get(name), "by_query"),
            f"{found.rounds[name]:.0f}",
            f"{found.seconds[name]:.0f}",
        ]
        for name in order
    ]
    header = [
        "method",
        "mean of the sets",
        "mean rank",
        f"minus {anchor}, every set alike",
        "p",
        "p, luck",
        "every query alike",
        "p",
        "p, luck",
        "rounds",
        "seconds",
    ]
    each = [[name, *(interval(found.measured[name][s]) for s in sets)] for name in order]
    minus = [
        [name, *(_words(compared[name].each[s]) for s in sets)]
        for name in order
        if name in compared
    ]
    queries = [f"{s} ({int(np.sum(~np.isnan(found.measured[anchor][s])))} queries)" for s in sets]
    sd = {s: luck(found.models, [s], count=1) for s in sets}
    lucky = "One model a fold: p leaves out the luck of a training."
    if not np.isnan(list(sd.values())).any():
        lucky = (
            "The luck of one training, a standard deviation over seeds and validation parts: "
            + ", ".join(f"{s} {v:.4f}" for s, v in sd.items())
        )
    return [
        (
            "All sets. Differences are paired by query, with 95% bootstrap intervals; p by"
            f" randomisation of signs, corrected by Holm's method for the {len(compared)}"
            " comparisons of its column; `p, luck` adds to the variance over queries that of the"
            " final models (normal, Holm too). Mean rank: every set alike. Rounds: median of the"
            " final models. Seconds: of training all of them, one thread, beside other work."
        ),
        markdown(header, all_sets),
        f"Each set: mean and its interval over queries. {lucky}",
        markdown(["method", *queries], each),
        f"Each set: minus {anchor}, paired; not corrected.",
        markdown(["method", *sets], minus),
        *_all_settings(found, anchor),
    ]


def _all_settings(found: Collected, anchor: str) -> list[str]:
    """The same comparison without a choice among the settings of the trees."""
    sets = list(found.tried[anchor])
    single = {
        name: [(place, values[np.newaxis]) for place, values in tried.items()]
        for name, tried in found.tried.items()
    }
    compared = against(found.tried, single, anchor)
    rows = [
        [
            name,
            *_difference(compared[name], "by_set")[:2],
            *_difference(compared[name], "by_query")[:2],
            *(_words(compared[name].each[s]) for s in sets),
        ]
        for name in sorted(compared, key=lambda name: -compared[name].by_set.mean)
    ]
    return [
        (
            f"The mean over every setting that was tried, minus that of {anchor}: what an objective"
            " is worth on trees that nobody tuned for it. It averages more models a fold, and the"
            " luck of choosing is left out."
        ),
        markdown(["method", "every set alike", "p", "every query alike", "p", *sets], rows),
    ]


def _difference(compared: Compared | None, which: str) -> list[str]:
    if compared is None:
        return ["-", "-", "-"]
    lucky = getattr(compared, f"luck_{which}")
    p = ["-" if np.isnan(lucky) else f"{lucky:.4f}"]
    return [_words(getattr(compared, which)), f"{getattr(compared, f'holm_{which}'):.4f}", *p]


def _words(difference: PairedDifference) -> str:
    return f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"


def _numbers(
    numbers: dict[str, Any], found: Collected, compared: Mapping[str, Compared], anchor: str
) -> dict[str, Any]:
    for name, sets in found.measured.items():
        numbers["methods"][name] = {"sets": {s: float(np.nanmean(v)) for s, v in sets.items()}}
        if name in compared:
            c = compared[name]
            numbers["methods"][name] |= {
                "minus": anchor,
                "by_set": vars(c.by_set) | {"p_holm": c.holm_by_set, "p_luck": c.luck_by_set},
                "by_query": (
                    vars(c.by_query) | {"p_holm": c.holm_by_query, "p_luck": c.luck_by_query}
                ),
                "each": {s: vars(d) for s, d in c.each.items()},
            }
    return numbers
