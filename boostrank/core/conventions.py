"""Conventions of ranking metrics: gains, ties, queries without a relevant document, cut-offs.

The same scores give a different NDCG in every library, because each resolves these choices in its own way. Here each
choice is explicit, and the choices of known libraries have names (`Conventions.named("lightgbm")`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.gains import Gain, parse_gain, rule_of
from boostrank.core.types import Float64Array

TIES = ("expected", "input", "pessimistic", "optimistic", "docno")
EMPTY = ("exclude", "one", "zero")
SINGLE = ("count", "exclude")
AP_DIVISORS = ("relevant", "reachable")
SHORT_LISTS = ("pad", "clip", "letor")
DISCOUNTS = ("log2(1+r)", "log2(r)")
SCORE_TYPES = ("float64", "float32")
_ALLOWED = {
    "discount": DISCOUNTS,
    "ties": TIES,
    "score_type": SCORE_TYPES,
    "empty": EMPTY,
    "single": SINGLE,
    "ap_divisor": AP_DIVISORS,
    "short_lists": SHORT_LISTS,
}


@dataclass(frozen=True)
class Conventions:
    """Choices that the definition of a metric leaves open.

    Args:
        gain: gain of a label: "exponential" (2^label - 1), "linear", or a table.
        discount: weight of rank r in DCG and NDCG: "log2(1+r)" is 1 / log2(1 + r), the usual one. "log2(r)" is
            1 / log2(max(2, r)), the original of Järvelin and Kekäläinen (2002), with equal weights for ranks 1 and 2.
        ties: order of documents with equal scores. "expected" takes the mean over all orders, in closed form. "input"
            keeps the row order (and rewards a lucky file). "pessimistic" and "optimistic" put the worst or the best
            first. "docno" sorts by document name, descending, as trec_eval does, and needs the names.
        score_type: compare scores as "float64", or rounded to "float32", where close scores tie.
        empty: value of a query without a relevant document. "exclude" leaves it out of the mean, counted and reported;
            "one" and "zero" assign that value. "one" applies to the metrics that are 0/0 there (NDCG, MAP, recall); the
            others (DCG, precision, MRR, ERR) are 0 by their formula.
        empty_of: exceptions to `empty` for single metrics, as pairs: (("map", "zero"),).
        single: queries with one document: "count" or "exclude".
        relevant_from: smallest relevant label for MAP, precision, recall and MRR; None for every label above 0.
        ap_divisor: divide average precision at k by the number of "relevant" documents, or by the "reachable" number
            min(relevant, k).
        short_lists: lists of n < k documents at cut-off k. "pad" assumes irrelevant documents at the end, so precision
            is divided by k. "clip" divides precision by n. "letor" is "pad" for precision and sets NDCG to 0.
        max_grade: ERR stops at a document with probability gain(label) / (gain(max_grade) + 1), which is
            (2^label - 1) / 2^max_grade for exponential gain. None uses the largest label of the data. With 0, the gains
            themselves are the probabilities.

    Raises:
        ParameterError: a value that is not allowed.
    """

    gain: Any = "exponential"
    discount: str = "log2(1+r)"
    ties: str = "expected"
    score_type: str = "float64"
    empty: str = "exclude"
    empty_of: tuple[tuple[str, str], ...] = ()
    single: str = "count"
    relevant_from: float | None = None
    ap_divisor: str = "relevant"
    short_lists: str = "pad"
    max_grade: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", parse_gain(self.gain))
        for field, allowed in _ALLOWED.items():
            if getattr(self, field) not in allowed:
                raise ParameterError(f"{field}={getattr(self, field)!r} is not one of {' | '.join(allowed)}")
        object.__setattr__(self, "empty_of", tuple((str(metric), str(word)) for metric, word in self.empty_of))
        for metric, word in self.empty_of:
            if word not in EMPTY:
                raise ParameterError(f"empty_of: {metric}={word!r} is not one of {' | '.join(EMPTY)}")
        if self.relevant_from is not None and not math.isfinite(self.relevant_from):
            raise ParameterError(f"relevant_from={self.relevant_from!r} is not a finite number")
        if self.max_grade is not None and not (math.isfinite(self.max_grade) and self.max_grade >= 0):
            raise ParameterError(f"max_grade={self.max_grade!r} is not a finite number >= 0")

    def empty_for(self, metric: str) -> str:
        """Return the treatment of queries without a relevant document in a metric, by its canonical name."""
        return dict(self.empty_of).get(metric, self.empty)

    @classmethod
    def named(cls, name: str) -> Conventions:
        """Return the conventions of lightgbm, xgboost, catboost, sklearn, trec, letor or mslr; "default" for our own.

        Raises:
            ParameterError: unknown name; the message lists the known ones.
        """
        preset = PRESETS.get(name.strip().lower())
        if preset is None:
            raise ParameterError(f"unknown metric conventions {name!r}.{did_you_mean(name, PRESETS)}")
        return preset

    @classmethod
    def given(cls, preset: str | None, gain: Any) -> Conventions:
        """Return the conventions of a preset ("default" if None), optionally with another gain."""
        rules = cls.named(preset or "default")
        return rules if gain is None else replace(rules, gain=rule_of(gain))

    @classmethod
    def of(cls, conventions: Conventions | str | None, gain: Gain = "exponential") -> Conventions:
        """Resolve conventions: as they are, by name, or the default ones with a gain."""
        if conventions is None:
            return cls(gain=gain)
        if isinstance(conventions, cls):
            return conventions
        if not isinstance(conventions, str):
            raise ParameterError(f"conventions={conventions!r}: Conventions(...), or one of {', '.join(PRESETS)}")
        return cls.named(conventions)

    @property
    def without_names(self) -> Conventions:
        """The same conventions without document names: ties "docno" becomes "expected"."""
        return replace(self, ties="expected") if self.ties == "docno" else self

    def over(self, labels: Float64Array) -> Conventions:
        """Set `max_grade` to the largest label if it is None, for use on parts of the data."""
        return self if self.max_grade is not None or not labels.size else replace(self, max_grade=float(labels.max()))

    def describe(self) -> str:
        """Describe the conventions in one line."""
        gain = self.gain if isinstance(self.gain, str) else "table " + ",".join(f"{g:g}" for g in self.gain)
        words = {"exclude": "left out", "one": "count 1", "zero": "count 0"}
        empty = words[self.empty] + "".join(f" ({metric}: {words[word]})" for metric, word in self.empty_of)
        single = {"count": "counted", "exclude": "left out"}[self.single]
        discount = "" if self.discount == "log2(1+r)" else f"; discount 1 / {self.discount}"
        return (
            f"gain {gain}{discount}; ties {self.ties}; queries with no relevant document {empty}; one-document queries "
            f"{single}"
        )


PRESETS: dict[str, Conventions] = {
    "default": Conventions(),
    # With query weights, LightGBM's NDCG adds 1 for an empty query, not its weight.
    "lightgbm": Conventions(ties="input", empty="one", ap_divisor="reachable"),
    # Also with query weights. `ndcg@k-` is empty="zero".
    "xgboost": Conventions(ties="input", score_type="float32", empty="one", ap_divisor="reachable", short_lists="clip"),
    # Defaults of NDCG and DCG; `type=Exp` is gain="exponential". Its ERR takes labels as probabilities.
    "catboost": Conventions(
        gain="linear",
        ties="pessimistic",
        empty="one",
        empty_of=(("map", "zero"),),
        relevant_from=math.nextafter(0.5, 1.0),
        ap_divisor="reachable",
        short_lists="clip",
        max_grade=0.0,
    ),
    # `ndcg_score` and `dcg_score` per query; scikit-learn rejects queries with one document.
    "sklearn": Conventions(gain="linear", empty="zero", single="exclude"),
    # trec_eval over the judged queries; it has no ERR.
    "trec": Conventions(gain="linear", ties="docno", score_type="float32", empty="zero"),
    # Eval-Score-4.0.pl. LETOR 3.0 differs only at cut-offs beyond the list, where its precision is 0, too.
    "letor": Conventions(discount="log2(r)", ties="input", empty="zero", short_lists="letor"),
    # Eval-Score-MSLR.pl: documents are relevant from grade 2.
    "mslr": Conventions(discount="log2(r)", ties="input", empty="zero", short_lists="letor", relevant_from=2.0),
}
"""Conventions of known libraries, by name."""
