"""Mixtures of two objectives, and objectives as text.

shf-sdcg                                               a name
shf-sdcg(sigma=0.5, score_noise=gumbel)                a name with parameters
LambdaMart:metric=MAP;sigmoid=2                        the same in CatBoost's form
mix(shf-sdcg(sigma=0.5), xe-ndcg, mix=0.3)             a mixture
auto                                                   the default, `AUTO`
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from boostrank.core.errors import ParameterError
from boostrank.core.params import Param, find_param, resolve_params
from boostrank.core.types import Json, Schedule
from boostrank.kernels.options import HESSIAN_SCALE, OPTIONS
from boostrank.objective.description import (
    Objective,
    TrainingObjective,
    parse_value,
    plain_values,
    value_at,
)
from boostrank.objectives import OBJECTIVES
from boostrank.schedules import split_outside_brackets

MIX = Param(
    "mix",
    0.5,
    "share of the first objective",
    low=0.0,
    high=1.0,
    schedulable=True,
    aliases=("lambda",),
)
BALANCE = Param(
    "balance",
    "l1",
    "l1: divide the gradients of each objective by their mean size over the training set, in each"
    " round; raw: do not scale",
    choices=("l1", "raw"),
)
MIXTURE_PARAMS = (MIX, BALANCE)

AUTO = "mix(lambdarank, xe-ndcg)"
"""The objective `auto`, which is equal parts of LambdaRank and XE-NDCG; see `experiments/peers`."""

_NAMES = ("mix", "mixture")
_CALL = re.compile(r"\s*([^\s()]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_SETTINGS = re.compile(r"\s*([^\s():=]+):([^\s():]+=[^():]+)")


class Mixture(TrainingObjective):
    """A mixture of two objectives: mix * first + (1 - mix) * second, applied to gradients and
    Hessians in each round.

    By default, the gradient and Hessian of each objective are first divided by its mean |gradient|
    over the training set in that round; an objective without any gradient is ignored in that round.
    REG-SHF-SDCG (Wu et al. 2009, eqs (18)-(19)) is `Mixture("regression(per_query=true)",
    "shf-sdcg", mix="logistic", balance="raw")`.

    Args:
        first, second: an `Objective`, or a text such as "shf-sdcg(sigma=0.5)". Metrics use the gain
            of `first` by default.
        mix: share of `first`, from 0 to 1, or a schedule.
        balance: "l1" as above, or "raw".
        hessian_scale: option of the mixture, as in `Objective`; the option of each part is ignored.
        total_rounds: length of the whole training, for schedules that span it.
        threads: threads for the kernels; None for every available core.

    Raises:
        ParameterError: a name is unknown, a value is out of range, or a part is itself a mixture.

    Example:
        >>> import boostrank
        >>> mixture = boostrank.Mixture("listnet", "shf-sdcg(sigma=0.5)", mix=0.2)
        >>> mixture.name, mixture.factors(0, [2.0, 4.0])
        ('mix(listnet, shf-sdcg)', (0.1, 0.2))
    """

    def __init__(
        self,
        first: Objective | str,
        second: Objective | str,
        *,
        mix: Any = 0.5,
        balance: str = "l1",
        hessian_scale: str = "unit",
        total_rounds: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.first, self.second = _as_part(first), _as_part(second)
        self.mix = parse_value(MIX, mix, "a mixture")
        self.balance = str(BALANCE.parse(balance))
        self.hessian_scale = str(HESSIAN_SCALE.parse(hessian_scale))
        self.threads = threads
        self.total_rounds = None
        if total_rounds is not None:
            self._set_total(int(total_rounds))
        self.gain = self.first.gain

    @property
    def name(self) -> str:
        """The mixture as text without parameters, such as "mix(shf-sdcg, regression)"."""
        return f"mix({self.first.name}, {self.second.name})"

    @property
    def parts(self) -> tuple[Objective, ...]:
        """The two objectives, `first` and `second`."""
        return self.first, self.second

    def factors(self, round: int, magnitudes: Sequence[float]) -> tuple[float, ...]:
        """Return the share of each part, divided by the part's magnitude if the mixture is
        balanced.
        """
        first_share = float(value_at(MIX, self.mix, round, self))
        shares = first_share, 1.0 - first_share
        if self.balance == "raw":
            return shares
        return tuple(
            share / magnitude if magnitude > 0.0 else 0.0
            for share, magnitude in zip(shares, magnitudes, strict=True)
        )

    def settled_round(self, total: int) -> int:
        """Return the first round with both parts settled and `mix` closer to its last value than to
        its first.
        """
        settled = max(part.settled_round(total) for part in self.parts)
        if not isinstance(self.mix, Schedule) or total < 1:
            return settled
        mix = self.mix.scale_to(total)
        start, end = mix(0), mix(total - 1)
        turning_round = next(
            (r for r in range(total) if abs(mix(r) - end) < abs(mix(r) - start)), 0
        )
        return max(settled, turning_round)

    def _set_total(self, total_rounds: int) -> None:
        super()._set_total(total_rounds)
        self.first = self.first.scale_to(total_rounds)
        self.second = self.second.scale_to(total_rounds)

    def __repr__(self) -> str:
        return f"Mixture({self.first!r}, {self.second!r}, mix={self.mix}, balance={self.balance!r})"

    def to_dict(self) -> Json:
        """Return both parts, the schedule of `mix` and the options as JSON data."""
        return {
            "name": "mixture",
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
            **plain_values({"mix": self.mix}),
            "balance": self.balance,
            "hessian_scale": self.hessian_scale,
            "total_rounds": self.total_rounds,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Mixture:
        """Create a mixture from the result of `to_dict`."""
        options = {key: data[key] for key in ("mix", "balance", "hessian_scale", "total_rounds")}
        return cls(
            Objective.from_dict(data["first"]), Objective.from_dict(data["second"]), **options
        )


def objective_from_dict(data: Mapping[str, Any]) -> TrainingObjective:
    """Create an objective or a mixture from the result of `to_dict`.

    Raises:
        ParameterError: the data are invalid, or the objective is from a user's file.
    """
    try:
        return Mixture.from_dict(data) if data["name"] == "mixture" else Objective.from_dict(data)
    except ParameterError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"{type(error).__name__}: {str(error)[:100]}"
        raise ParameterError(
            f"the data do not describe an objective of boostrank ({reason})"
        ) from error


def accepted_params(text: str) -> tuple[Param, ...]:
    """Return the parameters that `parse_objective` accepts together with this text."""
    name, positional, _ = _parse_call(text)
    if name.lower() not in _NAMES:
        return (*OBJECTIVES.get(name).params, *OPTIONS)
    of_parts = [param for part in _check_two(text, positional) for param in accepted_params(part)]
    return tuple(dict.fromkeys((*MIXTURE_PARAMS, *of_parts)))


def parse_objective(text: str, *, threads: int | None = None, **params: Any) -> TrainingObjective:
    """Create an objective from its text and parameters.

    The parameters of a mixture apply to the mixture itself. Every other parameter applies to each
    part that accepts it and does not set it in brackets.

    Args:
        text: objective in one of the forms listed in the module.
        threads: None for every available core.
        params: `gain` and the parameters in `accepted_params`.

    Raises:
        ParameterError: a name is unknown, a value is out of range, or the text is invalid.
    """
    name, positional, in_brackets = _parse_call(text)
    if name.lower() not in _NAMES:
        if positional:
            raise ParameterError(f"{text!r}: {positional[0]!r} is not name=value")
        # Values in brackets replace those outside, by canonical name.
        accepted, values = accepted_params(text), {}
        for settings in (params, in_brackets):
            for key in {"gain", "total_rounds"} & settings.keys():
                values[key] = settings.pop(key)
            values |= resolve_params(accepted, settings, owner=f"objective {name!r}")
        return Objective(name, threads=threads, **values)
    # Split the parameters between the mixture and its parts.
    of_mixture = (*MIXTURE_PARAMS, HESSIAN_SCALE)
    mixture_params, params_of_parts = {}, {}
    for key, value in params.items():
        param = find_param(key, of_mixture)
        if param is None:
            params_of_parts[key] = value
        else:
            mixture_params[param.name] = value
    mixture_params |= resolve_params(of_mixture, in_brackets, owner=f"{text!r}: a mixture")
    parts = []
    for part in _check_two(text, positional):
        accepted = accepted_params(part)
        part_params = {
            key: value
            for key, value in params_of_parts.items()
            if key == "gain" or find_param(key, accepted) is not None
        }
        parts.append(parse_objective(part, **part_params))
    return Mixture(*parts, threads=threads, **mixture_params)  # type: ignore[arg-type]


def _as_part(part: Objective | str) -> Objective:
    objective = parse_objective(part) if isinstance(part, str) else part
    if not isinstance(objective, Objective):
        name = getattr(objective, "name", objective)
        raise ParameterError(f"a mixture consists of two single objectives, not of {name!r}")
    return objective


def _parse_call(text: str) -> tuple[str, list[str], dict[str, Any]]:
    """Parse `name(a, b, c=d)`, or `name:c=d`, into name, [a, b], {c: d}."""
    if settings := _SETTINGS.fullmatch(text):
        text = f"{settings[1]}({settings[2].replace(';', ',')})"
    if text.strip().lower() == "auto":
        text = AUTO
    call = _CALL.fullmatch(text)
    if call is None:
        raise ParameterError(
            f"{text!r} is not an objective: write name, name(param=value) or mix(first, second)"
        )
    positional: list[str] = []
    keywords: dict[str, Any] = {}
    for piece in filter(None, map(str.strip, split_outside_brackets(call[2] or "", ","))):
        key, equals, value = map(str.strip, piece.partition("="))
        if not equals or "(" in key or ":" in key:
            positional.append(piece)
        elif key in keywords:
            raise ParameterError(f"{text!r}: {key!r} is set twice")
        else:
            keywords[key] = value
    return call[1], positional, keywords


def _check_two(text: str, positional: list[str]) -> tuple[str, str]:
    if len(positional) != 2:
        raise ParameterError(
            f"{text!r}: a mixture needs two objectives, as in mix(shf-sdcg, regression, mix=0.5)"
        )
    return positional[0], positional[1]
