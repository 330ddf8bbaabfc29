"""The configuration file that a search writes for `boostrank train --config`."""

from __future__ import annotations

import json
from typing import Any

from boostrank.core.params import find_param
from boostrank.engines import DEFAULT_BACKEND, of_engine
from boostrank.objective.mixture import accepted_params
from boostrank.options import FitOptions
from boostrank.tuning.result import TuningResult
from boostrank.tuning.space import TREES


def as_toml(found: TuningResult, given: FitOptions) -> str:
    """Create a file for `--config`: options, then parameters of the objective, then of the engine."""
    within = found.within_query
    params = dict(found.params)
    chosen = params.pop("objective")
    objective = given.objective if given.objective and not isinstance(chosen, str) else chosen
    known = () if not isinstance(chosen, str) or of_engine(chosen) else accepted_params(chosen)
    options: dict[str, Any] = {"objective": objective}
    if given.backend != DEFAULT_BACKEND:
        options["backend"] = given.backend
    tables: dict[str, dict[str, Any]] = {"set": {}, "param": {}}
    for name, value in params.items():
        if name in ("learning_rate", "num_leaves", "gain", "metric", "eval_at"):
            options[name.replace("_", "-")] = value
        elif name in ("num_threads", "verbosity"):
            continue
        elif not isinstance(chosen, str) and name not in TREES:
            tables["set"][name] = value
        else:
            tables["set" if find_param(name, known) else "param"][name] = value
    options["quality"] = "plain"  # as in the trials
    options["rounds"] = found.best_rounds if found.folds else found.rounds
    if not found.folds:
        options["early-stopping"] = found.patience
    if within is not None and within.kinds:
        options["within-query"] = list(within.kinds)
        if within.of is not None:
            options["of"] = list(within.of)
    if given.seed is not None:
        options["seed"] = given.seed
    lines = [
        f"# boostrank tune: {found.metric} {found.best.value if found.best else found.start:.6f} on "
        f"{found.queries:,} queries, {found.start:.6f} with the parameters as given"
    ]
    lines += [f"{name} = {_toml(value)}" for name, value in options.items()]
    for table, content in tables.items():
        if content:
            lines += ["", f"[{table}]", *(f"{name} = {_toml(value)}" for name, value in content.items())]
    return "\n".join(lines) + "\n"


def plain(value: Any) -> Any:
    """Return numbers, switches, text and lists as they are, and the name of any other object."""
    return value if isinstance(value, int | float | bool | str | list | tuple) else str(getattr(value, "name", value))


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(plain(value), ensure_ascii=False)  # strings, numbers and switches are written alike
