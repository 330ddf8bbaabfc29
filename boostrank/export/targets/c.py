"""c: C file that needs no library: tables of nodes and leaves, and a loop over them.

Nested conditions score 1.5 times as fast but compile slowly: for 500 trees of 63 leaves and a start, gcc takes 6 s
against half a second for tables. Tables score 100,000 rows in 2.1 s on one core.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec, shortest
from boostrank.kernels.trees.curves import ZERO
from boostrank.kernels.trees.walker import CATEGORICAL, LISTED_RIGHT, NAN_LEFT, ZERO_IS_MISSING

_TEXT = """/* Scores of the ranker {title}: higher is better within a query. Written by boostrank.

   C99, without libraries. Compile with -ffp-contract=off (and never -ffast-math): scores are then bit-identical to
   those of {engine}. Missing values are NaN. Rows have {name}_features() values, in the order of
   {name}_feature_names().

     double {name}_score(const double *row);
     void {name}_scores(const double *rows, size_t count, double *scores);   rows one after another
*/

#include <stddef.h>
#include <stdint.h>

typedef {number} number; /* type of values and of the sum of leaves */

enum {{ FEATURES = {features}, TREES = {trees}, BLOCK = 64 }};

/* kind: {nan_left}: missing values go left; {categorical}: threshold is a set of categories.
   left, right: a node, or ~leaf. */
typedef struct {{ number threshold; int32_t feature, left, right; uint32_t kind; }} node;

static const char *const names[FEATURES] = {{
{names}
}};
static const node nodes[] = {{
{nodes}
}};
static const number leaves[] = {{
{leaves}
}};
static const int32_t roots[] = {{{roots}}};
{sets}
static int goes_left(number value, const node *at)
{{
    if (value != value)
        return (at->kind & {nan_left}) != 0;
{strange}    return value <= at->threshold;
}}

static void add(const double *rows, size_t count, number *scores)
{{
    for (size_t t = 0; t < TREES; t++) {{
        for (size_t i = 0; i < count; i++) {{
            const double *row = rows + i * FEATURES;
            int32_t at = roots[t];
            while (at >= 0) {{
                const node *n = &nodes[at];
                at = goes_left((number)row[n->feature], n) ? n->left : n->right;
            }}
            scores[i] += leaves[~at];
        }}
    }}
}}

void {name}_scores(const double *rows, size_t count, double *scores);
void {name}_scores(const double *rows, size_t count, double *scores)
{{
    number score[BLOCK]; /* rows scored together, while a tree stays in the cache */
    for (size_t begin = 0; begin < count; begin += BLOCK) {{
        size_t size = count - begin < BLOCK ? count - begin : BLOCK;
        for (size_t i = 0; i < size; i++)
            score[i] = {base};
        add(rows + begin * FEATURES, size, score);
        for (size_t i = 0; i < size; i++)
            scores[begin + i] = (double)score[i];
    }}
}}

double {name}_score(const double *row);
double {name}_score(const double *row)
{{
    number score = {base};
    add(row, 1, &score);
    return (double)score;
}}

int {name}_features(void);
int {name}_features(void) {{ return FEATURES; }}

const char *const *{name}_feature_names(void);
const char *const *{name}_feature_names(void) {{ return names; }}
"""
_SETS = """/* Set i of categories: bit c % 32 of word c / 32 of words[set_ends[i]] to words[set_ends[i + 1]]. */
static const uint32_t words[] = {{{words}}};
static const uint32_t set_ends[] = {{{ends}}};

static int is_listed(number value, const node *at)
{{
    uint32_t begin = set_ends[(size_t)at->threshold], size = set_ends[(size_t)at->threshold + 1] - begin, category;
    if (value <= -1 || value >= 32.0 * size || (value < 0 && (at->kind & {listed_right})))
        return 0;
    category = (uint32_t)(int32_t)value;
    return (int)(words[begin + category / 32] >> category % 32 & 1);
}}
"""


def _write(model: ServedModel) -> bytes:
    trees, forest = model.trees, model.trees.forest
    if not forest.roots.size:
        raise ExportError("the model has no trees")

    def numbers(values: npt.NDArray[Any]) -> Iterable[str]:
        return (_literal(value, trees.single) for value in values.tolist())

    # Branches of `goes_left` for categories and for zeros that count as missing, if the model has them.
    columns = [column.tolist() for column in (forest.feature, forest.left, forest.right, forest.kind)]
    strange = ""
    if bool(forest.categorical.any()):
        strange += f"    if (at->kind & {CATEGORICAL})\n"
        strange += f"        return is_listed(value, at) != ((at->kind & {LISTED_RIGHT}) != 0);\n"
    if bool(np.any(forest.kind & ZERO_IS_MISSING)):
        strange += f"    if ((at->kind & {ZERO_IS_MISSING}) && value >= -{ZERO!r} && value <= {ZERO!r})\n"
        strange += f"        return (at->kind & {NAN_LEFT}) != 0;\n"
    sets = (
        _SETS.format(
            words=_lines(f"{word}u" for word in forest.sets.tolist()),
            ends=_lines(map(str, forest.set_ptr.tolist())),
            listed_right=LISTED_RIGHT,
        )
        if bool(forest.categorical.any())
        else ""
    )
    text = _TEXT.format(
        title=plain(model.name),
        engine=model.engine,
        name=identifier(model.name),
        number="float" if trees.single else "double",
        features=len(model.feature_names),
        trees=forest.roots.size,
        names=",\n".join(_text(name) for name in model.feature_names),
        nodes=",\n".join(
            f"{{{t}, {f}, {a}, {b}, {k}}}" for t, f, a, b, k in zip(numbers(forest.threshold), *columns, strict=True)
        )
        or "{0}",
        leaves=_lines(numbers(forest.value)),
        roots=_lines(map(str, forest.roots.tolist())),
        base=_literal(trees.base, trees.single),
        sets=sets,
        strange=strange,
        nan_left=NAN_LEFT,
        categorical=CATEGORICAL,
    )
    return text.encode()


def plain(name: str) -> str:
    """Return a name for a comment."""
    return re.sub(r"[^ -~]|[*/?\\]", "_", name)


def identifier(name: str) -> str:
    """Return a name for functions."""
    return "model_" * (not name[:1].isalpha()) + re.sub(r"\W", "_", name, flags=re.ASCII)


def _literal(number: float, single: bool) -> str:
    if not np.isfinite(number):  # without math.h
        return {"inf": "1.0 / 0.0", "-inf": "-1.0 / 0.0", "nan": "0.0 / 0.0"}[repr(number)]
    return f"{shortest(number)!r}f" if single else repr(number)


def _text(name: str) -> str:
    """Return a C string literal, with octal escapes for non-ASCII bytes and trigraphs."""
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in name.encode()) + '"'


def _lines(words: Iterable[str]) -> str:
    found = list(words)
    return ",\n".join(", ".join(found[i : i + 8]) for i in range(0, len(found), 8))


@cache
def compiler() -> str:
    """Return the command of the C compiler.

    Raises:
        ExportError: no compiler is found.
    """
    for command in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if command and shutil.which(command):
            return command
    raise ExportError(
        "no C compiler (cc, gcc or clang) to prove the file with: install one (Debian: apt install gcc), "
        "or name it in the environment variable CC"
    )


def _read(body: bytes, feature_names: Sequence[str]) -> Score:
    with tempfile.TemporaryDirectory(prefix="boostrank-") as folder:
        source, library = Path(folder, "model.c"), Path(folder, "model.so")
        source.write_bytes(body)
        command = [compiler(), "-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared", str(source), "-o"]
        done = subprocess.run([*command, str(library)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ExportError(f"{command[0]} does not compile the file: {' '.join(done.stderr.split())[:500]}")
        loaded = ctypes.CDLL(str(library))
    # Find the functions by the prefix of their names.
    (name,) = re.findall(rb"^void (\w+)_scores\(.*;$", body, re.MULTILINE)
    count, names, scores = (loaded[f"{name.decode()}_{what}"] for what in ("features", "feature_names", "scores"))
    names.restype = ctypes.POINTER(ctypes.c_char_p)
    inside = [(names()[i] or b"").decode() for i in range(count())]
    if inside != list(feature_names):
        raise ExportError("the compiled file has different feature names")
    pointer = ctypes.POINTER(ctypes.c_double)
    scores.argtypes, scores.restype = [pointer, ctypes.c_size_t, pointer], None

    def score(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        given = np.ascontiguousarray(rows, dtype=np.float64)
        assert given.shape[1] == len(inside)
        found = np.empty(len(given))
        scores(given.ctypes.data_as(pointer), len(given), found.ctypes.data_as(pointer))
        return found

    return score


SPEC = TargetSpec(
    name="c",
    title="a C file without dependencies",
    write=_write,
    read=_read,
    proved_by="the compiled file",
    how=(
        "Compile {file} into the program: cc -std=c99 -O2 -ffp-contract=off -c {file}",
        "Its first comment shows the functions to declare, for one row of values (double, in the order of the names in "
        "the file) and for many.",
        "Missing values are NaN, so never compile with -ffast-math.",
    ),
    leaves="float64",
    adds="float64",
    gives="float64",
    exact=("lightgbm", "xgboost"),
)
