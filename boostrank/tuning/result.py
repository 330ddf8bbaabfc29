"""Result of a parameter search, and its configuration file for `boostrank train --config`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from boostrank.core.params import find_param
from boostrank.core.resampling import PairedDifference
from boostrank.engines import of_engine
from boostrank.objective.mixture import accepted_params
from boostrank.options import PLAIN, FitOptions, declared
from boostrank.tuning.space import TREES


@dataclass(frozen=True)
class Trial:
    """A trial of the search.

    Args:
        number: trial number, from 0.
        params: searched parameters.
        value: metric over all held-out queries; NaN if stopped.
        rounds: median best round over folds; 0 if stopped.
        state: "done", "given up", or "failed: why".
    """

    number: int
    params: dict[str, Any]
    value: float
    rounds: int
    state: str


@dataclass(frozen=True, eq=False)
class TuningResult:
    """Result of a parameter search.

    Args:
        metric: metric name, such as "ndcg@10".
        fixed: given parameters.
        best: the best trial; None if none beats the given parameters.
        start: mean metric of the given parameters over a few trainings that differ only in seed and row order.
        luck: its standard deviation over these trainings.
        matters: difference between two single trainings that occurs by luck with a probability of 5%.
        gain: best minus start (the mean of its trainings), by query. It is optimistic, as the best of many trials.
        start_rounds: median best round of the given parameters.
        folds: number of folds of whole queries; 0 with a validation set.
        queries: number of held-out queries included in the metric.
        rounds: maximum rounds of each training.
    """

    metric: str
    fixed: dict[str, Any]
    best: Trial | None
    start: float
    luck: float
    matters: float
    gain: PairedDifference | None
    start_rounds: int
    trials: tuple[Trial, ...]
    folds: int
    queries: int
    rounds: int
    patience: int

    @property
    def params(self) -> dict[str, Any]:
        """Arguments for `boostrank.train`: the given parameters and the best ones found."""
        return self.fixed | (self.best.params if self.best else {})

    @property
    def best_rounds(self) -> int:
        """Best number of rounds for `params`."""
        return self.best.rounds if self.best else self.start_rounds


def as_toml(found: TuningResult, given: FitOptions, others: Mapping[str, Any]) -> str:
    """Create a file for `--config`: options, then parameters of the objective, then of the engine.

    Args:
        given: options of the search, as typed.
        others: further options of a training.
    """
    known, best = declared(FitOptions), dict(found.best.params) if found.best else {}
    chosen = found.params["objective"]
    own = accepted_params(chosen) if isinstance(chosen, str) and not of_engine(chosen) else ()
    values = {"objective": best.pop("objective", given.objective or chosen)}
    values |= {name: value for name, value in given.changed.items() if name not in (*values, *_NOT_WRITTEN)}
    tables = {"set": dict(given.settings), "param": dict(given.params)}
    for name, value in best.items():
        of_file = not isinstance(chosen, str) and name not in TREES
        if name in known:
            values[name] = value
        else:
            tables["set" if of_file or find_param(name, own) else "param"][name] = value
    options = {known[name].spelled[2:]: value for name, value in values.items()}
    options |= {name.replace("_", "-"): value for name, value in others.items()}
    options["quality"] = PLAIN  # as in the trials
    options["rounds"] = found.best_rounds if found.folds else found.rounds
    if not found.folds:
        options["early-stopping"] = found.patience
    lines = [
        f"# boostrank tune: {found.metric} {found.best.value if found.best else found.start:.6f} on "
        f"{found.queries:,} queries, {found.start:.6f} with the parameters as given"
    ]
    lines += [f"{name} = {_toml(value)}" for name, value in options.items()]
    for table, content in tables.items():
        if content:
            lines += ["", f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in content.items())]
    return "\n".join(lines) + "\n"


_NOT_WRITTEN = ("settings", "params", "threads", "rounds", "early_stopping")


def plain(value: Any) -> Any:
    """Return numbers, switches, text and lists as they are, and the name of any other object."""
    return value if isinstance(value, int | float | bool | str | list | tuple) else str(getattr(value, "name", value))


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(plain(value), ensure_ascii=False)  # strings, numbers and switches are written alike
