"""c: C file without dependencies: tables of nodes and leaves, and a loop over them.
go: Go file without dependencies: tables of nodes and leaves, and a loop over them.
java: Java class without dependencies, for Java 8 or later.
javascript: JavaScript module without dependencies, for browsers and Node.
python: Python module without dependencies: tables of nodes and leaves, and a loop over them.

`export/templates/` contains `model`, and `linear` for linear models. Words in capitals are replaced
by sizes and tables. Tables are arrays in C and Python and text in the other languages, because Java
methods are limited to 64 KB. Nested conditions compile ten times as slowly, and Python limits them
to 100 levels. The check of an export reads the tables; only the tests compile the code around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from boostrank.core.types import Array
from boostrank.engines.served.linear import LinearScore
from boostrank.engines.served.rules import Rules, scores
from boostrank.engines.trees import ServedTrees, make_forest
from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec
from boostrank.kernels.curves import ZERO
from boostrank.kernels.forest import CATEGORICAL, LISTED_RIGHT, NAN_LEFT, ZERO_IS_MISSING

_TEMPLATES = Path(__file__).parents[1] / "templates"
_CONSTANTS = {
    "NAN_LEFT": NAN_LEFT,
    "ZERO_IS_MISSING": ZERO_IS_MISSING,
    "CATEGORICAL": CATEGORICAL,
    "LISTED_RIGHT": LISTED_RIGHT,
    "TINY": ZERO,
}
_COLUMNS = "threshold value feature left right kind roots".split()
"""The columns of a forest in a file, after a pair of base and precision, and before the sets of
categories.
"""
# Words that stand for a size, a table or the name of the model.
_WORD = re.compile(r"\bMODEL(?=_|\b)|\b[A-Z_]+\b")
# The size of a column of a forest in code, not in a name.
_SIZE = re.compile(r'^[^"/\n]* = (?:doubles|ints)\((\d+)\)', re.MULTILINE)

# Words that cannot be the name of a class, package or function in one of the languages.
_RESERVED = re.findall(
    r"\w+",
    """
abstract assert auto boolean break byte case catch chan char class const continue default defer
delete do double else enum export extends extern fallthrough final finally float for func function
go goto if implements import in instanceof int interface long map native new package private
protected public range register return select short signed static struct super switch synchronized
this throw throws transient try type typedef typeof union unsigned var void volatile while with
yield Double Float Integer Long Math Object String System main init Arrays
IllegalArgumentException false null permits record sealed strictfp true
""",
)


def _identifier(name: str) -> str:
    """Return a name for the model that is valid in all languages."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() and plain not in _RESERVED else f"model_{plain}"


@dataclass(frozen=True)
class _Language:
    """A programming language.

    Args:
        ending: file extension of the templates.
        ascii: whether literals escape non-ASCII characters.
        arrays: whether tables and names are arrays. Otherwise, they are text.
        numbers: literals for infinity and NaN.
        comment: characters that begin a comment.
    """

    ending: str
    ascii: bool = False
    arrays: bool = False
    numbers: tuple[str, str] = ("Infinity", "NaN")
    comment: str = "//"

    @property
    def is_python(self) -> bool:
        """Whether the file can run here."""
        return self.ending == "python"

    def write(self, model: ServedModel) -> bytes:
        forest, linear = model.trees.forest, model.linear
        tables, template, precision_words = _tables(model.trees), "model", "the same bits as"
        if model.is_linear:
            linear, template, precision_words = linear.folded(), "linear", "the weights of"
            tables = [np.array([linear.bias]), linear.weights, linear.missing]
        columns = [_numbers(",".join(map(repr, table.tolist())), *self.numbers) for table in tables]
        if self.arrays:
            # No trigraphs in C.
            names = "\n".join(map(_literals, model.feature_names)).replace("?", "\\077")
        else:
            names = _literals("\n".join(model.feature_names), self.ascii)
        values = _CONSTANTS | {
            "NODES": forest.feature.size,
            "LEAVES": forest.value.size,
            "TREES": forest.roots.size,
            "WORDS": forest.sets.size,
            "ENDS": forest.set_ptr.size,
            "WIDTH": len(model.feature_names),
            "MODEL": _identifier(model.name),
            "NAMES": names,
            "TABLES": _literals(",".join(filter(None, columns))),
        }
        next_column = iter(columns)

        def fill_in(placeholder: re.Match[str]) -> str:
            if placeholder[0] == "COLUMN":
                return next(next_column) or "0"
            return str(values.get(placeholder[0], placeholder[0]))

        title = re.sub(r'[^ -~]|[*/?\\"]', "_", model.name)
        origin = f"boostrank: {title}, with {precision_words} {model.engine}"
        code = re.sub(_WORD, fill_in, self._template(template))
        return f"{self.comment} Code generated by {origin}.\n\n{code}".encode()

    def read(self, body: bytes, feature_names: Sequence[str]) -> Score:
        text = body.decode()
        names = _strings(text.replace("\\077", "?"))
        if not self.arrays:
            names = "".join(_strings(text.rpartition("tables()")[0])).split("\n")
        if names != list(feature_names):
            raise ExportError("the file has different feature names")
        if self.is_python:
            module: dict[str, Any] = {}
            exec(compile(body, "exported model", "exec"), module)
            score = module["score"]
            return lambda rows: np.array([score(row) for row in rows.tolist()], np.float64)
        return self._read_tables(text, len(names))

    def _read_tables(self, text: str, n_features: int) -> Score:
        """Return a function that scores rows by the tables in a file."""
        head, _, tables = text.rpartition("tables()")
        if self.arrays:
            columns = re.findall(r"^static const \w+ \w+\[\] = \{(.*)\};", text, re.MULTILINE)
        else:
            columns = ["".join(_strings(tables))]
        tables_of_numbers = [np.array(column.split(","), np.float64) for column in columns]
        sizes = [*map(int, _SIZE.findall(head))]
        if len(sizes or columns) < len(_COLUMNS):
            bias, weights, fill = np.split(np.concatenate(tables_of_numbers), [1, 1 + n_features])
            linear = LinearScore.of_weights(weights, fill, bias[0])
            return lambda rows: linear.score(rows, Rules())
        trees = _trees(tables_of_numbers, sizes)
        rules = replace(Rules.of_engine(trees), gives=np.float64)
        return lambda rows: scores(trees, rows, rules)

    def _template(self, name: str) -> str:
        return (_TEMPLATES / f"{name}.{self.ending}").read_text(encoding="utf-8")

    def spec(self, name: str, title: str, how: str, aliases: tuple[str, ...] = ()) -> TargetSpec:
        most_rows, most_linear_rows, proved_by = 50_000, 100_000, "reading the file's tables"
        if self.is_python:
            most_rows, most_linear_rows, proved_by = 2_000, 20_000, "Python itself"
        return TargetSpec(
            name=name,
            title=f"{title} without dependencies",
            write=self.write,
            read=self.read,
            proved_by=proved_by,
            how=f"{how}Missing values are NaN; the value of a category is its code.\n",
            rules=Rules(),
            exact=("lightgbm", "xgboost"),
            most_rows=most_rows,
            aliases=aliases,
            zeros=True,
            linear={"most_rows": most_linear_rows},
        )


def _numbers(text: str, infinity: str = "Infinity", nan: str = "NaN") -> str:
    """Replace Python's text for infinity and NaN with another language's literals."""
    return text.replace("inf", infinity).replace("nan", nan)


def _literals(text: str, ascii: bool = False) -> str:
    """Return string literals, one per line, which are below Java's limit of 65,535 bytes."""
    size = 60_000 if text.isascii() else 10_000
    chunks = (text[i : i + size] for i in range(0, len(text), size))
    return "\n".join(f"{json.dumps(chunk, ensure_ascii=ascii)}," for chunk in chunks)


def _strings(text: str) -> list[str]:
    return [json.loads(literal) for literal in re.findall(r'^(".*"),$', text, re.MULTILINE)]


def _tables(trees: ServedTrees) -> list[Array]:
    """Return the columns of a file, which `_trees` reads."""
    forest = trees.forest
    columns = [np.array([trees.base, trees.single])]
    columns += [getattr(forest, name) for name in _COLUMNS]
    if trees.single:
        with np.errstate(over="ignore"):
            columns[:3] = [column.astype(np.float32).astype(np.float64) for column in columns[:3]]
    return [*columns, forest.sets.view(np.int32), forest.set_ptr]


def _trees(columns: list[Array], sizes: Sequence[int]) -> ServedTrees:
    """Return the trees from the columns in a file. `sizes` are given if all columns are
    concatenated.
    """
    if sizes:
        columns = np.split(columns[0], np.cumsum(sizes)[:-1])
    (base, single), *tables, sets, set_ptr = columns
    words = np.split(sets.astype(np.int32).view(np.uint32), set_ptr.astype(np.int32))[1:-1]
    forest = make_forest(words, **dict(zip(_COLUMNS, tables, strict=True)))
    return ServedTrees(forest, np.zeros(0), base, single=single != 0.0)


SPECS = (
    _Language("c", arrays=True, numbers=("INFINITY", "NAN")).spec(
        "c",
        "a C file",
        """\
Compile {file} into the program: cc -std=c99 -O2 -ffp-contract=off -c {path}
Its first lines show the functions to declare, for one row of doubles and for many.
""",
    ),
    _Language("go").spec(
        "go",
        "a Go file",
        """\
Copy {file} into a folder of its own: it is the package of the model's name (--name).
Score(row []float64) returns the score of a document; Features has the names of the values of a row.
""",
    ),
    _Language("java", ascii=True).spec(
        "java",
        "a Java class",
        """\
Copy {file} into the program. The class has the model's name, which must be that of the file \
(--name).
score(double[] row) returns the score of a document; features() returns the names of the values \
of a row.
""",
    ),
    _Language("mjs").spec(
        "javascript",
        "a JavaScript module",
        """\
Copy {file} into the program (Node wants .mjs): import {{ score, features }} from "./{file}"
score(row) returns the score of a document; `features` has the names of the values of a row.
""",
        aliases=("js",),
    ),
    _Language("python", arrays=True, comment="#").spec(
        "python",
        "a Python module",
        """\
Copy {file} next to the program as NAME.py (letters, digits and _) and import it; it needs only \
Python 3. score_named({{name: value}}) takes values by name.
score([value of each of FEATURES]) returns the score of a document; None is missing, too.
""",
    ),
)
