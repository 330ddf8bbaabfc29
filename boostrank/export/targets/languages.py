"""c: C file without dependencies: tables of nodes and leaves, and a loop over them.
go: Go file without dependencies: tables of nodes and leaves, and a loop over them.
java: Java class without dependencies, for Java 8 or later.
javascript: JavaScript module without dependencies, for browsers and Node.

One text in Java's syntax becomes the others by replacements. C has tables as arrays, the others as text in literals: a
method of Java holds 64 KB, and so does a literal. Nested conditions would take a compiler ten times as long.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from boostrank.engines.trees import ServedTrees
from boostrank.export.reading import Rules, scores
from boostrank.export.target import ExportError, Score, ServedModel, TargetSpec
from boostrank.kernels.curves import ZERO
from boostrank.kernels.forest import CATEGORICAL, LISTED_RIGHT, NAN_LEFT, ZERO_IS_MISSING, Forest

# Numbers in the text of one run of a proof.
_MOST_CELLS = 2**22

# Names in capitals stand for sizes and literals.
_TEXT = f"""
// The score of a model without trees, and 1 if numbers are rounded to float32, as the engine does.
private static final double[] head = doubles(2);
private static final double[] thresholds = doubles(NODES);
private static final double[] leaves = doubles(LEAVES);
private static final int[] columns = ints(NODES);
// Children: a node, or -1 - leaf.
private static final int[] lefts = ints(NODES);
private static final int[] rights = ints(NODES);
// {NAN_LEFT}: missing values go left; {ZERO_IS_MISSING}: zeros are missing; {CATEGORICAL}: the threshold is a set of \
categories, which go left; {LISTED_RIGHT}: right.
private static final int[] kinds = ints(NODES);
private static final int[] roots = ints(TREES);
// Set i of categories: bit c % 32 of word c / 32 of words[ends[i]] to words[ends[i + 1]].
private static final int[] words = ints(WORDS);
private static final int[] ends = ints(ENDS);

private static double number(double value) {{
    if (head[1] == 0) {{
        return value;
    }}
    return (float) value;
}}

private static boolean goesLeft(double value, int node) {{
    int kind = kinds[node];
    if ((kind & {CATEGORICAL}) != 0 && value == value) {{
        boolean others = (kind & {LISTED_RIGHT}) != 0;
        int begin = ends[(int) thresholds[node]];
        int end = ends[(int) thresholds[node] + 1];
        if (value <= -1 || value >= 32 * (double) (end - begin) || (value < 0 && others)) {{
            return others;
        }}
        int category = (int) value;
        return (((words[begin + (category >> 5)] >> (category & 31)) & 1) != 0) != others;
    }}
    if (value != value || ((kind & {ZERO_IS_MISSING}) != 0 && value >= -{ZERO!r} && value <= {ZERO!r})) {{
        return (kind & {NAN_LEFT}) != 0;
    }}
    return value <= thresholds[node];
}}

private static double leaf(double[] row, int root) {{
    int node = root;
    while (node >= 0) {{
        if (goesLeft(number(row[columns[node]]), node)) {{
            node = lefts[node];
        }} else {{
            node = rights[node];
        }}
    }}
    return leaves[-1 - node];
}}

// Score of a document: higher is better within a query.
public static double score(double[] row) {{
    if (row.length != WIDTH) {{
        throw new IllegalArgumentException("expected WIDTH features");
    }}
    double total = head[0];
    for (int root : roots) {{
        total = number(total + leaf(row, root));
    }}
    return total;
}}

private static String names() {{
    return String.join("", new String[] {{
NAMES
    }});
}}

private static String tables() {{
    return String.join("", new String[] {{
TABLES
    }});
}}
"""

# Words that no class, package or function of one of the languages may be called.
_RESERVED = re.findall(
    r"\w+",
    """
abstract assert auto boolean break byte case catch chan char class const continue default defer delete do double
else enum export extends extern fallthrough final finally float for func function go goto if implements import in
instanceof int interface long map native new package private protected public range register return select short
signed static struct super switch synchronized this throw throws transient try type typedef typeof union unsigned
var void volatile while with yield Double Float Integer Long Math Object String System main init
""",
)


def _identifier(name: str) -> str:
    """Return a name for the model that all languages take."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() and plain not in _RESERVED else f"model_{plain}"


@dataclass(frozen=True)
class _Language:
    """Language of a target.

    Args:
        head, tail: beginning and end of the file; `MODEL` is the name of the model.
        changes: patterns and their replacements, from Java's syntax.
        files: names of the file and of a program that prints the score of each line of its input.
        proof: that program.
        commands: commands that compile and run it.
        ascii: whether literals spell other characters by their codes.
        arrays: whether columns and names are arrays; otherwise text.
    """

    head: str
    changes: tuple[tuple[str, str], ...]
    files: tuple[str, str]
    proof: str
    commands: tuple[str, ...]
    tail: str = ""
    ascii: bool = False
    arrays: bool = False

    def write(self, model: ServedModel) -> bytes:
        forest, single = model.trees.forest, model.trees.single
        with np.errstate(over="ignore"):
            parts = [np.array([model.trees.base, single]), forest.threshold, forest.value]
            parts = [part.astype(np.float32 if single else np.float64).astype(np.float64) for part in parts]
        parts += [forest.feature, forest.left, forest.right, forest.kind, forest.roots, forest.sets.view(np.int32)]
        columns = [_numbers(",".join(map(repr, part.tolist()))) for part in (*parts, forest.set_ptr)]
        text = _TEXT
        for pattern, replacement in self.changes:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        text = f"{self.head}{text}{self.tail}"
        for what, value in (
            ("NODES", forest.feature.size),
            ("LEAVES", forest.value.size),
            ("TREES", forest.roots.size),
            ("WORDS", forest.sets.size),
            ("ENDS", forest.set_ptr.size),
            ("WIDTH", len(model.feature_names)),
            ("MODEL", _identifier(model.name)),
        ):
            text = text.replace(what, str(value))
        if self.arrays:
            for column in columns:
                text = text.replace("COLUMN", column.replace("Infinity", "INFINITY").replace("NaN", "NAN") or "0", 1)
            names = "\n".join(map(_literals, model.feature_names)).replace("?", "\\?")  # no trigraphs
        else:
            text = text.replace("TABLES", _literals(",".join(filter(None, columns))))
            names = _literals("\n".join(model.feature_names), self.ascii)
        title = re.sub(r"[^ -~]|[*/?\\]", "_", model.name)
        first = f"// Code generated by boostrank: {title}, with the same bits as {model.engine}."
        return f"{first}\n\n{text.replace('NAMES', names)}".encode()

    def read(self, body: bytes, feature_names: Sequence[str]) -> Score:
        text = body.decode()
        before, _, after = text.rpartition("tables()")
        names = _strings(text.replace("\\?", "?")) if self.arrays else "".join(_strings(before)).split("\n")
        if names != list(feature_names):
            raise ExportError("the file has different feature names")
        if not self.runs:
            columns = re.findall(r'= \{([^"{}]*)\};', text)[:10] if self.arrays else ["".join(_strings(after))]
            sizes = map(int, re.findall(r"= (?:doubles|ints)\((\d+)\)", before))
            trees = _trees([np.array(column.split(","), np.float64) for column in columns], [*sizes])
            return lambda rows: scores(trees, rows, Rules.of(trees)).astype(np.float64)
        folder = tempfile.TemporaryDirectory(prefix="boostrank-")
        found = re.search(r"^(?:package (\w+)|public final class (\w+)|double (\w+)_score)", text, re.MULTILINE)
        model = found[found.lastindex or 0] if found else ""
        text = re.sub("^package .*", "package main", text, flags=re.MULTILINE)
        for file, content in zip(self.files, (text, self.proof.replace("MODEL", model)), strict=True):
            Path(folder.name, file.replace("MODEL", model)).write_text(content, encoding="utf-8")
        *compile, run = (command.replace("MODEL", model).split() for command in self.commands)
        for command in compile:
            _run(command, folder.name)

        def score(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
            printed: list[str] = []
            for part in np.array_split(rows, 1 + rows.size // _MOST_CELLS):
                lines = "".join(" ".join(map(repr, row)) + "\n" for row in part.tolist())
                printed += _run(run, folder.name, _numbers(lines)).split()
            return np.array(printed, np.float64)

        return score

    @property
    def runs(self) -> bool:
        """Whether the programs of the proof are installed."""
        return all(map(shutil.which, (command.split()[0] for command in self.commands if command[0] != ".")))


def _numbers(text: str) -> str:
    """Spell the numbers of Python's text as all languages do."""
    return text.replace("inf", "Infinity").replace("nan", "NaN")


def _literals(text: str, ascii: bool = False) -> str:
    """Return string literals, one per line, each under Java's limit of 65,535 bytes."""
    size = 60_000 if text.isascii() else 10_000
    parts = (text[i : i + size] for i in range(0, len(text), size))
    return "\n".join(f"{json.dumps(part, ensure_ascii=ascii)}," for part in parts)


def _strings(text: str) -> list[str]:
    """Return the strings of all literals."""
    return [json.loads(literal) for literal in re.findall(r'^(".*"),$', text, re.MULTILINE)]


def _trees(columns: list[npt.NDArray[Any]], sizes: Sequence[int]) -> ServedTrees:
    """Return the trees of a file's columns; with sizes, all columns are in one."""
    head, threshold, value, *others = np.split(columns[0], np.cumsum(sizes)[:-1]) if sizes else columns
    feature, left, right, kind, roots, sets, ends = (column.astype(np.int32) for column in others)
    forest = Forest(
        *(feature, threshold, kind.astype(np.uint8), left, right, value, roots, np.zeros_like(feature)),
        sets=sets.view(np.uint32),
        set_ptr=ends.astype(np.int64),
    )
    return ServedTrees(forest, np.zeros(feature.size), np.zeros(value.size), float(head[0]), bool(head[1]))


def _run(command: list[str], folder: str, given: str = "") -> str:
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise ExportError(f"{' '.join(command[:2])} does not take the file: {' '.join(done.stderr.split())[:500]}")
    return done.stdout


_C = _Language(
    head="""// Compile with -ffp-contract=off, never with -ffast-math. A row has MODEL_features() values in the order of
// MODEL_feature_names(); NaN is a missing value. Rows stand one after another.
//   double MODEL_score(const double *row);
//   void MODEL_scores(const double *rows, size_t count, double *scores);

#include <math.h>
#include <stddef.h>
""",
    changes=(
        (r"private static final (\w+)\[\] (\w+) = .*", r"static const \1 \2[] = {COLUMN};"),
        (
            r"public static double score.*",
            "double MODEL_score(const double *row);\ndouble MODEL_score(const double *row)\n{",
        ),
        (r"^private ", ""),
        ("boolean ", "int "),
        (r"\bdouble\[\] ", "const double *"),
        (r"    if \(row.length(.*\n){3}", ""),
        (r"int root : roots", "int tree = 0; tree < TREES; tree++"),
        (r"leaf\(row, root\)", "leaf(row, roots[tree])"),
        (r"static String (.*\n)*", ""),
    ),
    tail="""
void MODEL_scores(const double *rows, size_t count, double *scores);
void MODEL_scores(const double *rows, size_t count, double *scores)
{
    // Rows scored together, while a tree stays in the cache.
    for (size_t begin = 0; begin < count; begin += 64) {
        size_t end = count - begin < 64 ? count : begin + 64;
        for (size_t i = begin; i < end; i++) {
            scores[i] = head[0];
        }
        for (int tree = 0; tree < TREES; tree++) {
            for (size_t i = begin; i < end; i++) {
                scores[i] = number(scores[i] + leaf(rows + i * WIDTH, roots[tree]));
            }
        }
    }
}

static const char *const names[] = {
NAMES
};

int MODEL_features(void);
int MODEL_features(void) { return WIDTH; }

const char *const *MODEL_feature_names(void);
const char *const *MODEL_feature_names(void) { return names; }
""",
    files=("MODEL.c", "proof.c"),
    proof="""#include <stdio.h>
#include <stdlib.h>
void MODEL_scores(const double *rows, size_t count, double *scores);
int MODEL_features(void);
int main(void)
{
    size_t size = 0, count, i;
    double *rows = NULL, *scores, value;
    while (scanf("%lf", &value) == 1) {
        if (size % 65536 == 0)
            rows = realloc(rows, (size + 65536) * sizeof value);
        rows[size++] = value;
    }
    count = size / (size_t)MODEL_features();
    scores = malloc((count + 1) * sizeof value);
    MODEL_scores(rows, count, scores);
    for (i = 0; i < count; i++)
        printf("%.17g\\n", scores[i]);
    return 0;
}
""",
    commands=("cc -std=c99 -O2 -ffp-contract=off MODEL.c proof.c -o proof", "./proof"),
    arrays=True,
)
_JAVA = _Language(
    head="""import java.util.Arrays;

public final class MODEL {
private static final String[] names = names().split("\\n");
private static final double[] numbers = Arrays.stream(tables().split(",")).mapToDouble(Double::parseDouble).toArray();
private static int place = 0;

private static double[] doubles(int count) {
    place += count;
    return Arrays.copyOfRange(numbers, place - count, place);
}

private static int[] ints(int count) {
    return Arrays.stream(doubles(count)).mapToInt(number -> (int) number).toArray();
}

// Names of the features, in the order of a row. NaN is a missing value.
public static String[] features() {
    return names.clone();
}
""",
    changes=(),
    files=("MODEL.java", "BoostrankProof.java"),
    proof="""import java.io.*;
import java.util.Arrays;
class BoostrankProof {
    public static void main(String[] none) {
        new BufferedReader(new InputStreamReader(System.in)).lines().forEach(line -> System.out.println(
            MODEL.score(Arrays.stream(line.split(" ")).mapToDouble(Double::parseDouble).toArray())));
    }
}
""",
    commands=("javac -encoding UTF-8 MODEL.java BoostrankProof.java", "java -cp . BoostrankProof"),
    tail="}\n",
    ascii=True,
)
_JAVASCRIPT = _Language(
    head="""// Names of the features, in the order of a row. NaN, null and undefined are missing values.
export const features = names().split("\\n");
const numbers = tables().split(",").map(Number);
let place = 0;

function doubles(count) {
    place += count;
    return Float64Array.from(numbers.slice(place - count, place));
}

function ints(count) {
    return Int32Array.from(doubles(count));
}
""",
    changes=(
        (r"private static final \w+\[\] ", "const "),
        (r"public static double score\(double\[\] ", "export function score("),
        (r"private static \w+ (\w+)\(", r"function \1("),
        (r"\bdouble\[\] row, int ", "row, "),
        (r"for \(int ", "for (const "),
        (" : roots", " of roots"),
        (r"^( +)(double|int|boolean) ", r"\1let "),
        (r"\bdouble value, int ", "value, "),
        (r"\bdouble value", "value"),
        (r"\(double\) ", ""),
        (r"\(float\) value", "Math.fround(value)"),
        (r"\(int\) (value|thresholds\[node\])", r"Math.trunc(\1)"),
        (r"row\[columns\[node\]\]", "row[columns[node]] ?? NaN"),
        ("IllegalArgumentException", "RangeError"),
        (r'String.join\("", new String\[\] \{', "["),
        (r"^    \}\)", '    ].join("")'),
    ),
    files=("model.mjs", "proof.mjs"),
    proof="""import { readFileSync } from "node:fs";
import { score } from "./model.mjs";
const lines = readFileSync(0, "utf8").trimEnd().split("\\n");
process.stdout.write(lines.map((line) => score(line.split(" ").map(Number))).join("\\n"));
""",
    commands=("node proof.mjs",),
)
_GO = _Language(
    head="""package MODEL

import (
	"strconv"
	"strings"
)

// Features has the names of the features, in the order of a row. NaN is a missing value.
var Features = strings.Split(names(), "\\n")

var numbers = strings.Split(tables(), ",")
var place = 0

func doubles(count int) []float64 {
	found := make([]float64, count)
	for i := range found {
		found[i], _ = strconv.ParseFloat(numbers[place+i], 64)
	}
	place += count
	return found
}

func ints(count int) []int32 {
	found := make([]int32, count)
	for i, number := range doubles(count) {
		found[i] = int32(number)
	}
	return found
}
""",
    changes=(
        (r"private static final \w+\[\] ", "var "),
        ("// Score of", "// Score returns the score of"),
        (r"public static double score\(double\[\] row\)", "func Score(row []float64) float64"),
        (r"private static double (\w+)\(double value\)", r"func \1(value float64) float64"),
        (r"private static boolean (\w+)\(double value, int node\)", r"func \1(value float64, node int32) bool"),
        (r"private static String (\w+)\(\)", r"func \1() string"),
        (r"private static double leaf\(double\[\] row, int root\)", "func leaf(row []float64, root int32) float64"),
        (r"for \(int root : roots\)", "for _, root := range roots"),
        (r"\bwhile\b", "for"),
        (r"(for|if) \((.+)\) \{$", r"\1 \2 {"),
        (r"^( +)(double|int|boolean) (\w+) =", r"\1\3 :="),
        (r"\(double\) ", "float64"),
        (r"\(float\) value", "float64(float32(value))"),
        (r"\(int\) (value|thresholds\[node\])", r"int32(\1)"),
        (r"\brow.length", "len(row)"),
        ("throw new IllegalArgumentException", "panic"),
        (r'String.join\("", new String\[\] ', "strings.Join([]string"),
        (r"^    \}\)", '    }, "")'),
        (";$", ""),
        ("    ", "\t"),
    ),
    files=("model.go", "proof.go"),
    proof="""package main
import ("fmt"; "io"; "os"; "strconv"; "strings")
func main() {
    text, _ := io.ReadAll(os.Stdin)
    for _, line := range strings.Split(strings.TrimSpace(string(text)), "\\n") {
        row := []float64{}
        for _, word := range strings.Fields(line) {
            value, _ := strconv.ParseFloat(word, 64)
            row = append(row, value)
        }
        fmt.Println(Score(row))
    }
}
""",
    commands=("go build -o proof model.go proof.go", "./proof"),
)


def _spec(name: str, title: str, language: _Language, *how: str, aliases: tuple[str, ...] = ()) -> TargetSpec:
    programs = " and ".join(command.split()[0] for command in language.commands if command[0] != ".")
    last = "Missing values are NaN; the value of a category is its code."
    return TargetSpec(
        name=name,
        title=f"{title} without dependencies",
        write=language.write,
        read=language.read,
        proved_by=programs if language.runs else f"reading the file's tables ({programs}: not installed)",
        how=(how[0], how[1], last),
        leaves="float64",
        adds="float64",
        gives="float64",
        exact=("lightgbm", "xgboost"),
        most_rows=50_000,
        aliases=aliases,
    )


SPECS = (
    _spec(
        "c",
        "a C file",
        _C,
        "Compile {file} into the program: cc -std=c99 -O2 -ffp-contract=off -c {file}",
        "Its first lines show the functions to declare, for one row of doubles and for many.",
    ),
    _spec(
        "go",
        "a Go file",
        _GO,
        "Copy {file} into a folder of its own: it is the package of the model's name (--name).",
        "Score(row []float64) returns the score of a document; Features has the names of the values of a row.",
    ),
    _spec(
        "java",
        "a Java class",
        _JAVA,
        "Copy {file} into the program. The class has the model's name, which must be that of the file (--name).",
        "score(double[] row) returns the score of a document; features() returns the names of the values of a row.",
    ),
    _spec(
        "javascript",
        "a JavaScript module",
        _JAVASCRIPT,
        'Copy {file} into the program (Node wants .mjs): import {{ score, features }} from "./{file}"',
        "score(row) returns the score of a document; `features` has the names of the values of a row.",
        aliases=("js",),
    ),
)
