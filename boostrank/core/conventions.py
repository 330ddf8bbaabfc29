"""Gains of relevance labels, and conventions of ranking metrics.

A gain is a name, a table, or an expression over columns, such as `0.7*label + 0.3*log1p(margin)`.
Expressions are parsed by Python's parser, but are not evaluated as code. The syntax tree is
computed by NumPy operations. Missing values propagate through every operation, including
comparisons. Only `isnan` detects them.
"""

from __future__ import annotations

import ast
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from boostrank.core.errors import ParameterError, RowError, did_you_mean
from boostrank.core.queries import QueryIndex
from boostrank.core.types import BoolArray, Float64Array, first_true

LABEL = "label"
"""Name of the label in an expression, regardless of its column name."""
MOST_CHARACTERS = 2000
_MOST_NESTED = 100

Operation = Callable[..., Any]

_OPERATORS: dict[type[ast.AST], Operation] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.UAdd: np.positive,
    ast.USub: np.negative,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
FUNCTIONS: dict[str, tuple[Operation, int, int]] = {
    "abs": (np.abs, 1, 1),
    "clip": (lambda x, low, high: np.minimum(np.maximum(x, low), high), 3, 3),
    "exp": (np.exp, 1, 1),
    "exp2": (np.exp2, 1, 1),
    "isnan": (np.isnan, 1, 1),
    "log": (np.log, 1, 1),
    "log1p": (np.log1p, 1, 1),
    "max": (lambda *values: reduce(np.maximum, values), 2, 20),
    "min": (lambda *values: reduce(np.minimum, values), 2, 20),
    "sqrt": (np.sqrt, 1, 1),
    "where": (
        lambda test, yes, no: np.where(np.isnan(test), np.nan, np.where(test != 0.0, yes, no)),
        3,
        3,
    ),
}
"""Allowed functions, with their minimum and maximum number of arguments."""

# Names are replaced by underscores before Python parses the text, to allow columns such as `if`,
# f.1 or `a b`.
_WORD = re.compile(
    rb"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|`[^`]+`|(?:[^\W\d]|[\x80-\xff])(?:[\w.]|[\x80-\xff])*"
)
_STRANGE = re.compile(rb"[^\d.eE+\-*/()<>=!, _]")


class GainExpression:
    """A gain that is an expression over columns.

    Attributes:
        text: the expression.
        columns: names of the columns, in order of appearance.
    """

    def __init__(self, text: str) -> None:
        """Parse an expression, or raise `ParameterError` with the part that is not allowed."""
        self.text = text.strip()
        if len(self.text) > MOST_CHARACTERS:
            raise ParameterError(
                f"gain: the expression has {len(self.text):,} characters, more than"
                f" {MOST_CHARACTERS:,}"
            )
        self._bytes = self.text.encode(errors="replace")
        self._tree = self._parse()
        # Compute the gains of no rows, which checks every part and looks up every column.
        no_rows: dict[str, Float64Array] = defaultdict(lambda: np.zeros(0))
        self._compute(self._tree, no_rows)
        self.columns = tuple(no_rows)
        if not self.columns:
            raise ParameterError(
                f"gain {self.text!r} names no column: it would be the same for every document"
            )

    def evaluate(self, columns: Mapping[str, ArrayLike]) -> Float64Array:
        """Compute the gains, float64[n], from columns, float[n]. Overflow and division by zero give
        infinity or NaN.
        """
        arrays = {name: np.asarray(columns[name], np.float64) for name in self.columns}
        gains: Float64Array = self._compute(self._tree, arrays) + 0.0  # -0 becomes 0
        return gains

    def _parse(self) -> ast.expr:
        spaced = re.sub(rb"\s", b" ", self._bytes)
        plain = _WORD.sub(lambda word: word[1] or b"_" * len(word[0]), spaced)
        strange = _STRANGE.search(plain)
        if strange:
            character = self._bytes[strange.start() :].decode(errors="replace")[0]
            self._refuse(f"cannot read {character!r}")
        try:
            return ast.parse(plain.decode(), mode="eval").body
        except SyntaxError as error:
            self._refuse(str(error.msg))
        except (MemoryError, RecursionError, ValueError):
            self._refuse("nested too deep")

    @np.errstate(all="ignore")
    def _compute(self, node: ast.expr, columns: Mapping[str, Float64Array], depth: int = 0) -> Any:
        """Compute a part of the expression."""
        source = self._source_of(node)
        if depth > _MOST_NESTED:
            self._refuse("nested too deep")
        operation, operands = None, list[ast.expr]()
        match node:
            case ast.Constant(value=int() | float()):
                return np.float64(source)
            case ast.Name():
                return columns[source.strip("`")]
            case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]):
                operation, operands = _OPERATORS.get(type(op)), [left, right]
            case ast.UnaryOp(op, operand):
                operation, operands = _OPERATORS.get(type(op)), [operand]
            case ast.Call(ast.Name() as function, operands, []):
                operation = self._find_function(function, len(operands))
        if operation is None:
            self._refuse(f"{source!r} is not allowed")
        values = [self._compute(part, columns, depth + 1) for part in operands]
        result = operation(*values)
        if isinstance(node, ast.BinOp | ast.Compare):
            # NumPy does not propagate NaN in comparisons, NaN ** 0 and 1 ** NaN.
            result = np.where(np.isnan(values[0]) | np.isnan(values[1]), np.nan, result)
        return np.asarray(result, np.float64)

    def _source_of(self, node: ast.expr) -> str:
        return self._bytes[node.col_offset : node.end_col_offset].decode()

    def _find_function(self, node: ast.Name, count: int) -> Operation:
        name = self._source_of(node)
        if name not in FUNCTIONS:
            hint = did_you_mean(name, FUNCTIONS, list_all=False)
            self._refuse(f"there is no function {name!r}.{hint}".rstrip("."))
        operation, min_arguments, max_arguments = FUNCTIONS[name]
        if not min_arguments <= count <= max_arguments:
            upto = "" if max_arguments == min_arguments else f" to {max_arguments}"
            self._refuse(f"{name} takes {min_arguments}{upto} arguments, not {count}")
        return operation

    def _refuse(self, words: str) -> NoReturn:
        text = self.text if len(self.text) <= 80 else f"{self.text[:77]}..."
        raise ParameterError(
            f"gain {text!r}: {words}; an expression has numbers, columns"
            " (`in backquotes` unless a plain name), + - * / **, comparisons and"
            f" {', '.join(FUNCTIONS)}"
        )


# The engines' limit, too. Far above 2^31, one document outweighs all others in a float32 gradient.
MAX_EXPONENTIAL_LABEL = 31.0
_MOST_MAPPED = 32

Gain = str | Sequence[float]


def expression_of(gain: Any) -> GainExpression | None:
    """Return the parsed expression, or None for a word, a table or no text. Other text raises
    `ParameterError`.
    """
    if not isinstance(gain, str) or not gain.strip() or _word_or_table(gain) is not None:
        return None
    return GainExpression(gain)


def rule_of(gain: Any) -> str | tuple[float, ...]:
    """Return the result of `parse_gain`, or "linear" for an expression, whose values replace a data
    set's labels.
    """
    return parse_gain(gain) if expression_of(gain) is None else "linear"


def _word_or_table(gain: Any) -> str | tuple[float, ...] | None:
    if isinstance(gain, Mapping):  # its keys would become the gains
        return None
    word = gain.strip().lower() if isinstance(gain, str) else ""
    if word in ("exponential", "linear"):
        return word
    gains = word.split(",") if isinstance(gain, str) else gain
    try:
        return tuple(map(float, gains))
    except (TypeError, ValueError):
        return None


def parse_gain(gain: Any) -> str | tuple[float, ...]:
    """Parse `"exponential"` (2^label - 1), `"linear"` (the label itself), or a table.

    A table contains the gains for the labels 0, 1, 2, ..., as a sequence of finite numbers >= 0
    that never decrease, or as text such as "0,1,3,7". Anything else raises `ParameterError`.
    """
    rule = _word_or_table(gain)
    if rule is None:
        raise ParameterError(
            f"gain={gain!r}: use 'exponential', 'linear', or a table such as '0,1,3,7,15'. Only"
            " train and RankingDataset.with_gain compute an expression over columns"
        )
    if not isinstance(rule, str) and (
        not rule or not all(np.isfinite(rule)) or min(rule) < 0 or any(np.diff(rule) < 0)
    ):
        raise ParameterError(f"gain table {rule}: entries must be finite, >= 0 and never decrease")
    return rule


def gains_from_labels(labels: ArrayLike, gain: Any = "exponential") -> Float64Array:
    """Compute the gain of each document, float64[N], which is finite and >= 0; see `parse_gain`.

    Raises:
        RowError: if a label is not finite, negative, too large for 2^label, or not in the table.
    """
    rule, y = parse_gain(gain), np.asarray(labels, dtype=np.float64)

    def refuse(bad: BoolArray, reason: str) -> None:
        row = first_true(bad)
        if row is not None:
            raise RowError(row, f"label {y[row]:g} {reason}")

    # Refuse labels that no rule accepts, with the label map that would mend them.
    refuse(~np.isfinite(y), "is not a finite number")
    if y.min(initial=0.0) < 0.0:
        pairs = label_map_from_zero(y)
        remedy = f"; label_map={pairs!r} where files are read" if pairs else ""
        if pairs == "-1=0" and np.any(y == 0.0):
            remedy += " merges them with label 0: remove the rows instead if -1 means not judged"
        refuse(y < 0.0, f"is negative: relevance labels start at 0{remedy}")
    # Apply a formula; only the exponential one bounds the labels.
    if rule == "exponential":
        reason = (
            f"is above {MAX_EXPONENTIAL_LABEL:g}: 2^label - 1 would outweigh every other document;"
            " use gain='linear' or a gain table"
        )
        refuse(y > MAX_EXPONENTIAL_LABEL, reason)
        return np.exp2(y) - 1.0
    if rule == "linear":
        return y.copy()
    # Look up the labels in a table, which has whole numbers only.
    table, index = np.asarray(rule, dtype=np.float64), y.astype(np.int64)
    unknown = (index != y) | (index >= table.size)
    refuse(
        unknown, f"has no entry in the gain table of {table.size} labels (0 to {table.size - 1})"
    )
    return np.asarray(table[index], dtype=np.float64)


def label_map_from_zero(labels: ArrayLike) -> str:
    """Return a label map, as text, that shifts the lowest label to 0, or "" if there are more than
    32 labels.

    If -1 is the only negative label, it means "not judged", and the other labels are kept.
    """
    grades = np.unique(labels)
    if grades[0] == -1 and np.all(grades[1:] >= 0):
        return "-1=0"
    if grades.size > _MOST_MAPPED:
        return ""
    return ",".join(f"{old:g}={old - grades[0]:g}" for old in grades)


def weighted_gains(labels: ArrayLike, gain: Gain, queries: QueryIndex) -> Float64Array:
    """Return `gains_from_labels` times the document weights, if any, float64[N]. Overflow raises
    `DataError`.
    """
    with queries.naming_rows():
        gains = gains_from_labels(labels, gain)
    if queries.document_weights is None:
        return gains
    with np.errstate(over="ignore"):
        weighted = gains * queries.document_weights
    beyond = first_true(np.isinf(weighted))
    if beyond is not None:
        raise queries.row_error(
            beyond, "the product of gain and weight overflows: rescale the weights"
        )
    return weighted


def above_least(gains: Float64Array, queries: QueryIndex) -> Float64Array:
    """Return the gain of each document minus the smallest gain in its query, float64[N]."""
    # Append a sentinel, so that `reduceat` accepts the start of an empty last query.
    least = np.minimum.reduceat(np.append(gains, np.inf), queries.ptr[:-1])
    return np.asarray(gains - np.repeat(least, queries.sizes), dtype=np.float64)


CHOICES = {
    "discount": ("log2(1+r)", "log2(r)"),
    "ties": ("expected", "input", "pessimistic", "optimistic", "docno"),
    "score_type": ("float64", "float32"),
    "empty": ("exclude", "one", "zero"),
    "single": ("count", "exclude"),
    "ap_divisor": ("relevant", "reachable"),
    "short_lists": ("pad", "clip", "letor"),
}
"""Allowed values of each convention."""


@dataclass(frozen=True)
class Conventions:
    """Choices that the definition of a metric leaves open.

    Args:
        gain: gain for each label, which is "exponential" (2^label - 1), "linear", or a table.
        discount: weight of rank r in DCG and NDCG. "log2(1+r)" means 1 / log2(1 + r), which is
            usual. "log2(r)" means 1 / log2(max(2, r)), as proposed by Järvelin and Kekäläinen
            (2002), with equal weights for ranks 1 and 2.
        ties: order of documents with equal scores. "expected" computes the mean over all orders, in
            closed form. "input" keeps the row order. "pessimistic" and "optimistic" put the worst
            or the best documents first. "docno" sorts by document name in descending order, as
            trec_eval does, and requires names.
        score_type: type in which scores are compared, which is "float64", or "float32", in which
            close scores are tied.
        empty: value for a query without a relevant document. "exclude" excludes the query from the
            mean and reports the count. "one" and "zero" assign that value. "one" applies to metrics
            that would be 0/0 (NDCG, MAP, recall). The other metrics (DCG, precision, MRR, ERR) are
            0 by their formula.
        empty_of: exceptions to `empty` for single metrics, as pairs such as (("map", "zero"),).
        single: whether to "count" or "exclude" queries with one document.
        relevant_from: smallest relevant label for MAP, precision, recall and MRR; None means all
            labels above 0.
        ap_divisor: divisor in average precision at k, which is the number of "relevant" documents,
            or the "reachable" number min(relevant, k).
        short_lists: treatment of lists with n < k documents at cut-off k. "pad" adds irrelevant
            documents, so precision is divided by k. "clip" divides precision by n. "letor" is "pad"
            for precision and sets NDCG to 0.
        max_grade: largest grade in ERR, where the user stops at a document with probability
            gain(label) / (gain(max_grade) + 1). None means the largest label in the data. With 0,
            the gains are the probabilities.

    Raises:
        ParameterError: if a value is not allowed.

    Example:
        >>> import boostrank
        >>> import numpy as np
        >>> queries = boostrank.QueryIndex.from_sizes([3, 2])
        >>> features = np.arange(10, dtype=np.float32).reshape(5, 2)
        >>> data = boostrank.RankingDataset(features, np.array([2.0, 0, 1, 0, 1]), queries)
        >>> scores = [0.1, 0.4, 0.3, 0.0, 0.2]
        >>> for gain in ("exponential", "linear"):
        ...     conventions = boostrank.Conventions(gain=gain)
        ...     results = boostrank.evaluate(scores, data, "dcg", conventions=conventions)
        ...     print(round(results["dcg"].mean, 3))
        1.565
        1.315
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
        for field, allowed in CHOICES.items():
            if getattr(self, field) not in allowed:
                raise ParameterError(
                    f"{field}={getattr(self, field)!r} is not one of {' | '.join(allowed)}"
                )
        object.__setattr__(self, "empty_of", tuple(dict(self.empty_of).items()))
        for metric, word in self.empty_of:
            if word not in CHOICES["empty"]:
                raise ParameterError(
                    f"empty_of: {metric}={word!r} is not one of {' | '.join(CHOICES['empty'])}"
                )
        if self.relevant_from is not None and not math.isfinite(self.relevant_from):
            raise ParameterError(f"relevant_from={self.relevant_from!r} is not a finite number")
        if self.max_grade is not None and not (
            math.isfinite(self.max_grade) and self.max_grade >= 0
        ):
            raise ParameterError(f"max_grade={self.max_grade!r} is not a finite number >= 0")

    def empty_for(self, metric: str) -> str:
        """Return the value of `empty` for the metric with this canonical name."""
        return dict(self.empty_of).get(metric, self.empty)

    @classmethod
    def of(cls, conventions: Conventions | str | None = None, gain: Any = None) -> Conventions:
        """Resolve conventions, optionally with another gain.

        Args:
            conventions: a `Conventions`, or one of the names lightgbm, xgboost, catboost, sklearn,
                trec, letor, mslr and default; None means default.
            gain: gain that replaces the gain in the conventions; None keeps it.

        Raises:
            ParameterError: if the name is unknown. The message lists the known names.
        """
        rules: Any = conventions
        if not isinstance(conventions, cls):
            name = "default" if conventions is None else str(conventions).strip().lower()
            rules = PRESETS.get(name)
            if rules is None:
                raise ParameterError(
                    f"unknown metric conventions {conventions!r}.{did_you_mean(name, PRESETS)}"
                )
        resolved: Conventions = rules if gain is None else replace(rules, gain=rule_of(gain))
        return resolved

    @property
    def without_names(self) -> Conventions:
        """The same conventions without document names, where "docno" for ties becomes
        "expected".
        """
        return replace(self, ties="expected") if self.ties == "docno" else self

    def with_best_grade(self, labels: Float64Array) -> Conventions:
        """Set `max_grade` to the largest label if it is None, so that it is the same for all parts
        of the data.
        """
        if self.max_grade is not None or not labels.size:
            return self
        return replace(self, max_grade=float(labels.max()))

    def describe(self) -> str:
        """Describe the conventions in one line."""
        gain = self.gain
        if not isinstance(gain, str):
            gain = "table " + ",".join(f"{g:g}" for g in gain)
        treatments = {"exclude": "left out", "one": "count 1", "zero": "count 0"}
        empty = treatments[self.empty] + "".join(
            f" ({metric}: {treatments[word]})" for metric, word in self.empty_of
        )
        single = {"count": "counted", "exclude": "left out"}[self.single]
        discount = "" if self.discount == "log2(1+r)" else f"; discount 1 / {self.discount}"
        return (
            f"gain {gain}{discount}; ties {self.ties}; queries with no relevant document {empty};"
            f" one-document queries {single}"
        )


PRESETS: dict[str, Conventions] = {
    "default": Conventions(),
    # With query weights, LightGBM's NDCG adds 1 for an empty query, not its weight.
    "lightgbm": Conventions(ties="input", empty="one", ap_divisor="reachable"),
    # NDCG with query weights is XGBoost's, too; its `ndcg@k-` is empty="zero".
    "xgboost": Conventions(
        ties="input", score_type="float32", empty="one", ap_divisor="reachable", short_lists="clip"
    ),
    # Defaults of NDCG and DCG; `type=Exp` is gain="exponential". Its ERR takes labels as
    # probabilities.
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
    # `ndcg_score` and `dcg_score` per query. Scikit-learn rejects queries with one document.
    "sklearn": Conventions(gain="linear", empty="zero", single="exclude"),
    # trec_eval over the judged queries; it has no ERR.
    "trec": Conventions(gain="linear", ties="docno", score_type="float32", empty="zero"),
    # Eval-Score-4.0.pl. LETOR 3.0 differs only at cut-offs beyond the list, where its precision is
    # 0, too.
    "letor": Conventions(discount="log2(r)", ties="input", empty="zero", short_lists="letor"),
    # Eval-Score-MSLR.pl: documents are relevant from grade 2.
    "mslr": Conventions(
        discount="log2(r)", ties="input", empty="zero", short_lists="letor", relevant_from=2.0
    ),
}
"""Conventions of known libraries, by name."""
