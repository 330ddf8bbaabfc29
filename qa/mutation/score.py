"""The mutation score: how many small changes of the sources the tests notice.

    python -m qa.mutation.score [PART ...] [--sample 60] [--seed 1] [--out mutation.md]

Of each part of the package mutants are drawn at random (0: all of them), and the tests that execute
their lines run against one after the other, uncompiled. Which tests those are is found by a run of
every test file with its lines noted; that, and what became of each mutant, is kept in a folder and
not done again while the files are the same. A mutant that nothing distinguishes from the source
stands in `equivalent.toml`, with the reason, and is counted apart.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import random
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from qa.mutation.mutants import Mutant, mutants_of
from qa.mutation.sandbox import ROOT, Sandbox, Trace

PARTS = {
    "kernels": ("kernels",),
    "objectives": ("objectives", "objective"),
    "metrics": ("metrics",),
    "libsvm": ("files/text", "files/formats/libsvm.py", "files/assemble.py", "files/blocks.py"),
    "formats": ("engines", "model/files.py", "records.py"),
}
LEFT_OUT = ("kernels/jit", "kernels/private", "kernels/intrinsics")
"""What makes machine code: nothing of it runs where kernels are plain Python."""
TESTS = (
    "kernels",
    "objectives",
    "metrics",
    "schedules",
    "core",
    "data",
    "model",
    "checking",
    "engines/test_linear.py",
    "engines/test_linear_start.py",
    "engines/test_xgboost_start.py",
    "fit/test_averaging.py",
    "fit/test_contributions.py",
    "fit/test_even_leaves.py",
    "fit/test_model.py",
    "fit/test_peers.py",
    "fit/test_steps.py",
    "export/test_xgboost.py",
    "export/test_python.py",
    "export/test_lightgbm.py",
)
"""Files and folders of tests that are tried."""
DECLARED = (
    "tests/objectives/test_objective.py::test_what_objectives_declare_changes_only_on_purpose"
)
"""It reads what was made when the files were imported, and executes none of their functions."""
LIMIT = 3.0
"""Seconds of processor time, traced, that a test, and its fixtures, may take to be among those that
are tried.
"""
AT_MOST = 30.0
"""Seconds of tests, traced, that are tried on a mutant: of its own part, and again of the others.
"""
COMPILED = 6
"""Tests that take too long uncompiled, and are tried compiled on a mutant that all others leave."""
_FEW = 5
"""Tests that execute a line, and do not import its file anew: with fewer, others are tried that may
read its values.
"""
_PATIENCE = 10.0
"""How many times longer than without a mutant a test may take."""

PACKAGE = ROOT / "boostrank"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Result:
    """What became of a mutant; `digest` is of the file it was made from, `tried` of the tests that
    were tried.
    """

    file: str
    function: str
    was: str
    now: str
    line: int
    outcome: str
    by: str
    digest: str
    tried: str

    @property
    def key(self) -> Key:
        return self.file, self.function, self.was, self.now


def digest_of(*contents: bytes) -> str:
    """A short name of some bytes."""
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


def equivalents() -> dict[Key, str]:
    """Mutants that are no faults, and why."""
    reasons: dict[Key, str] = {}
    for entry in tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", []):
        for was, now in entry["changes"]:
            reasons[entry["file"], entry["function"], was, now] = entry["why"]
    return reasons


def all_mutants(part: str, package: Path) -> list[Mutant]:
    """Every mutant of a part, in the order of its files."""
    mutants = []
    for path in sorted(
        path for name in PARTS[part] for path in [package / name, *(package / name).rglob("*.py")]
    ):
        name = str(path.relative_to(package))
        if path.is_file() and not name.startswith(LEFT_OUT):
            mutants += mutants_of(name, path.read_bytes())
    return mutants


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95% interval of a share, from a sample."""
    if not of:
        return 0.0, 1.0
    z = 1.959964
    middle, spread = (
        hits / of + z * z / (2 * of),
        z * math.sqrt(hits * (of - hits) / of + z * z / 4) / of,
    )
    return (middle - spread) / (1 + z * z / of), (middle + spread) / (1 + z * z / of)


class Traces:
    """What the test files do, kept from run to run."""

    def __init__(self, sandbox: Sandbox, kept: Path) -> None:
        self.of: dict[str, Trace] = {}
        self.sandbox = sandbox
        kept.mkdir(parents=True, exist_ok=True)
        tests = sandbox.folder / "tests"
        for path in sorted(
            p for name in TESTS for p in [tests / name, *(tests / name).rglob("*.py")]
        ):
            if path.is_dir() or "\ndef test_" not in path.read_text(encoding="utf-8"):
                continue
            name = str(path.relative_to(sandbox.folder))
            file = kept / f"{name.replace('/', '.')}.json"
            if file.exists():
                digest, trace = json.loads(file.read_text())
                if digest == self._digest(name, trace[2]):
                    self.of[name] = Trace(*trace)
                    continue
            started = time.monotonic()
            traced = sandbox.trace(name, LIMIT)
            took = time.monotonic() - started
            say(
                f"{name}: {len(traced.seconds)} tests, {len(traced.left_out)} left out,"
                f" {took:.0f} s"
            )
            if traced.lines:  # a process that was stopped may go to its end another time
                file.write_text(
                    json.dumps([self._digest(name, traced.lines), list(asdict(traced).values())])
                )
            self.of[name] = traced
        self._passing: dict[str, bool] = {}
        self.tests = {
            test for trace in self.of.values() for test in (*trace.seconds, *trace.left_out)
        }

    def _digest(self, test_file: str, lines: dict[str, object]) -> str:
        names = [
            self.sandbox.folder / test_file,
            *(self.sandbox.package / name for name in sorted(lines)),
        ]
        contents = [name.read_bytes() if name.exists() else b"" for name in names]
        return digest_of(*contents)

    def tests_for(self, mutant: Mutant, part: str) -> list[dict[str, float]]:
        """Limits of time by test, of the tests to try: those of the part itself, then the others.

        What runs when a file is imported, no test executes: there it is those of the files that
        import it, those that execute what mentions the changed names, and those that execute
        anything of the file.
        """
        folder = "data" if part == "libsvm" else part
        executing = set() if mutant.at_import else self._executing(mutant.file, mutant.lines)
        first = {test for test in executing if test.split("/")[1] == folder}
        stages = [first, executing - first]
        source = (self.sandbox.package / mutant.file).read_text(encoding="utf-8")
        anew = self._executing(mutant.file, (1, ast.parse(source).body[0].lineno))
        if len(executing - anew) < _FEW:
            importing = {name for name in self.of if self._imports(name, mutant.file)}
            tests = {test for name in importing for test in self.of[name].seconds}
            tests |= {DECLARED} & self.tests
            users = users_of(source, mutant.lines)
            using = {test for lines in users for test in self._executing(mutant.file, lines)}
            stages += [
                tests,
                using - tests,
                self._executing(mutant.file, (0, sys.maxsize)) - using - tests,
            ]
        chosen: list[dict[str, float]] = []
        for stage in stages:
            kept: dict[str, float] = {}
            spent = 0.0
            stage = stage.difference(*chosen)
            for seconds, test in sorted(
                (self._seconds(test), test) for test in stage if not self._left_out(test)
            ):
                spent += seconds
                if spent < AT_MOST:
                    kept[test] = (
                        _PATIENCE * (seconds + self.of[test.partition("::")[0]].setup) + 3.0
                    )
            chosen.append(kept)
        return chosen

    def too_long_for(self, mutant: Mutant) -> list[str]:
        """Tests that execute the lines, or would, and take too long uncompiled."""
        source = (self.sandbox.package / mutant.file).read_text(encoding="utf-8")
        users = users_of(source, mutant.lines) if mutant.at_import else [mutant.lines]
        tests = {test for lines in users for test in self._executing(mutant.file, lines)}
        return sorted(test for test in tests if self._left_out(test) == "too long")

    def passes(self, test: str) -> bool:
        """Whether a test that has run alone, or the import of its file, does without a change of
        the sources.
        """
        if test in self.tests and test not in self._passing:
            limits = {test: _PATIENCE * (LIMIT + self.of[test.partition("::")[0]].setup)}
            source = (self.sandbox.package / "__init__.py").read_bytes()
            outcome, _ = self.sandbox.try_mutant(
                "__init__.py", source, limits, self.tests, 60 + limits[test]
            )
            self._passing[test] = outcome == "survived"
            if outcome != "survived":
                say(f"{test} fails by itself: it is not tried")
        return self._passing.get(test, True)

    def _left_out(self, test: str) -> str:
        return self.of[test.partition("::")[0]].left_out.get(test, "")

    def _executing(self, file: str, lines: tuple[int, int]) -> set[str]:
        first, last = lines
        return {
            test
            for trace in self.of.values()
            for test, executed in trace.lines.get(file, {}).items()
            if any(first <= line <= last for line in executed)
        }

    def _seconds(self, test: str) -> float:
        return self.of[test.partition("::")[0]].seconds[test]

    def _imports(self, test_file: str, file: str) -> bool:
        """Whether a test file names a module of the package in an import."""
        module = f"boostrank.{file.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
        names = set()
        for node in ast.walk(
            ast.parse((self.sandbox.folder / test_file).read_text(encoding="utf-8"))
        ):
            if isinstance(node, ast.ImportFrom):
                names |= {
                    str(node.module),
                    *(f"{node.module}.{alias.name}" for alias in node.names),
                }
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        return module in names

    def digest(self, tests: list[dict[str, float]]) -> str:
        """Of tests, and the files that they stand in."""
        names = sorted(test for stage in tests for test in stage)
        files = sorted({test.partition("::")[0] for test in names})
        return digest_of(
            *(name.encode() for name in names),
            *((self.sandbox.folder / f).read_bytes() for f in files),
        )


def users_of(source: str, lines: tuple[int, int]) -> list[tuple[int, int]]:
    """Lines that mention the names which are bound there at the top of a file, directly or through
    another one.
    """
    tree = ast.parse(source)
    names: set[str] = set()
    before = -1
    while len(names) > before:
        before = len(names)
        for node in tree.body:
            used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            is_it = node.lineno <= lines[0] <= (node.end_lineno or 0)
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names |= {node.name} if is_it else set()
            elif is_it or (isinstance(node, ast.Assign | ast.AnnAssign) and used & names):
                names |= {
                    n.id
                    for n in ast.walk(node)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
    loads = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )
    return [(node.lineno, node.lineno) for node in loads if node.id in names]


def try_one(
    sandbox: Sandbox, traces: Traces, part: str, mutant: Mutant, before: Result | None
) -> Result:
    """Run its tests, unless that has been done."""
    digest = digest_of((sandbox.package / mutant.file).read_bytes())
    tests = traces.tests_for(mutant, part)
    tried = traces.digest(tests)
    if (
        before
        and before.digest == digest
        and before.tried == tried
        and before.outcome not in ("killed", "timeout")
    ):
        return before
    if (
        before
        and before.digest == digest
        and before.outcome in ("killed", "timeout")
        and traces.passes(before.by)
    ):
        return before
    outcome, by = "not executed", ""
    for stage in tests:
        outcome, by = try_stage(sandbox, traces, mutant, stage) if stage else (outcome, by)
        if outcome in ("killed", "timeout"):
            break
    if outcome not in ("killed", "timeout") and (long := traces.too_long_for(mutant)):
        outcome, by = sandbox.try_compiled(mutant.file, mutant.source, long[:COMPILED], 1800)
    return Result(*mutant.key, mutant.line, outcome, by, digest, tried)


def try_stage(
    sandbox: Sandbox, traces: Traces, mutant: Mutant, stage: dict[str, float]
) -> tuple[str, str]:
    """Run these tests; one that fails by itself without the change has noticed nothing, and is left
    out.
    """
    while stage:
        outcome, by = sandbox.try_mutant(
            mutant.file, mutant.source, stage, traces.tests, 60 + sum(stage.values())
        )
        if outcome == "survived" or traces.passes(by):
            return outcome, by
        stage = {test: limit for test, limit in stage.items() if test != by}
    return "survived", ""


def page(
    drawn: dict[str, list[Result]], population: dict[str, int], traces: Traces, seed: int
) -> str:
    """The table, and every survivor."""
    reasons = equivalents()
    lines = [
        "# Mutation score",
        "",
        (
            f"Mutants drawn at random (seed {seed}); tests run uncompiled. Score: killed of those"
            " not equivalent, with its 95% interval (Wilson)."
        ),
        "",
        (
            "| part | mutants | drawn | killed | of these by time | survived | equivalent | score |"
            " interval |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    tables: list[str] = []
    for part, results in drawn.items():
        lines.append(row(part, population[part], results, reasons))
        of_file: dict[str, list[Result]] = {}
        for result in results:
            of_file.setdefault(result.file, []).append(result)
        tables += [row(f"`{file}`", "", rows, reasons) for file, rows in sorted(of_file.items())]
    lines += ["", "## By module", "", *lines[4:6], *tables, "", "## Survivors", ""]
    for result in sorted(
        (r for results in drawn.values() for r in results), key=lambda r: (r.file, r.line)
    ):
        if result.outcome in ("survived", "not executed"):
            why = f"; equivalent: {reasons[result.key]}" if result.key in reasons else ""
            lines.append(
                f"- `{result.file}:{result.line}` in `{result.function}` ({result.outcome}{why})"
            )
            lines += ["", f"      - {result.was}", f"      + {result.now}", ""]
    left_out = Counter(why for trace in traces.of.values() for why in trace.left_out.values())
    tests = sum(len(trace.seconds) for trace in traces.of.values())
    others = ", ".join(f"{count} {why}" for why, count in left_out.most_common())
    lines += ["", f"Tests: {tests:,}; not among them: {others}.", ""]
    return "\n".join(lines)


def row(name: str, of: int | str, results: list[Result], reasons: dict[Key, str]) -> str:
    """A line of the table."""
    killed = sum(r.outcome in ("killed", "timeout") for r in results)
    late = sum(r.outcome == "timeout" for r in results)
    same = sum(r.outcome in ("survived", "not executed") and r.key in reasons for r in results)
    counted = len(results) - same
    low, high = wilson(killed, counted)
    share = f"{killed / counted:.1%} | {low:.1%} to {high:.1%}" if counted else "- | -"
    return (
        f"| {name} | {of} | {len(results)} | {killed} | {late} | {counted - killed} | {same} |"
        f" {share} |"
    )


def say(text: str) -> None:
    """Print it now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Try the mutants, write the page; 1 where a score is below 90%."""
    parser = argparse.ArgumentParser(
        prog="python -m qa.mutation.score", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}, all unless named"
    )
    parser.add_argument("--sample", type=int, default=60, help="mutants of each part; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "mutation.md", help="where the page goes"
    )
    parser.add_argument(
        "--kept", type=Path, default=ROOT / ".mutation", help="folder that keeps what is known"
    )
    arguments = parser.parse_args()
    parts = arguments.parts or list(PARTS)
    if unknown := sorted(set(parts) - set(PARTS)):
        parser.error(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder).resolve() / "copy")
        traces = Traces(sandbox, arguments.kept / "traces")
        results_file = arguments.kept / "results.jsonl"
        results_file.touch()
        results = [Result(**json.loads(line)) for line in results_file.read_text().splitlines()]
        before = {(result.key, result.line): result for result in results}
        drawn: dict[str, list[Result]] = {}
        population = {}
        for part in parts:
            mutants = all_mutants(part, sandbox.package)
            population[part] = len(mutants)
            random.Random(f"{arguments.seed} {part}").shuffle(mutants)
            drawn[part] = []
            for mutant in mutants[: arguments.sample or len(mutants)]:
                started, earlier = time.monotonic(), before.get((mutant.key, mutant.line))
                result = try_one(sandbox, traces, part, mutant, earlier)
                drawn[part].append(result)
                if result is not earlier:
                    with results_file.open("a") as file:
                        file.write(json.dumps(asdict(result)) + "\n")
                    took, change = time.monotonic() - started, f"{mutant.was} -> {mutant.now}"
                    say(f"{result.outcome} in {took:.1f} s: {mutant.file}:{mutant.line} {change}")
            say(row(part, population[part], drawn[part], equivalents()))
        arguments.out.write_text(page(drawn, population, traces, arguments.seed), encoding="utf-8")
    say(f"{arguments.out}")
    reasons = equivalents()
    return int(any(low_score(results, reasons) for results in drawn.values()))


def low_score(results: list[Result], reasons: dict[Key, str]) -> bool:
    """Whether less than 90% of what is not equivalent was noticed."""
    killed = sum(r.outcome in ("killed", "timeout") for r in results)
    return killed < 0.9 * sum(
        r.outcome in ("killed", "timeout") or r.key not in reasons for r in results
    )


if __name__ == "__main__":
    sys.exit(main())
