"""Small changes of a source file, made from its syntax tree: each one is a mutant that a test
should notice.

Comparisons and arithmetic swapped, constants one larger or zero, conditions negated, `and` for
`or`, ranges and slices one off, statements left out, returned values dropped. Not changed are:
annotations, decorators, strings, `assert`, and what only type checkers or the compiler read, which
nothing of plain Python notices.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_BINARY: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        file: relative to the package.
        function: qualified name of the function or class that it stands in; empty at the top of the
            file.
        at_import: whether it runs when the file is imported, not when a function is called.
        lines: first and last line (from 1) of the statement, or of its head.
        line: where the change begins.
        was, now: the changed lines, without indentation, before and after.
        source: the whole file with the change.
    """

    file: str
    function: str
    at_import: bool
    lines: tuple[int, int]
    line: int
    was: str
    now: str
    source: bytes

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same where lines above come and go."""
        return self.file, self.function, self.was, self.now


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Every mutant of a file, in order of their places; those that read alike within a function are
    one.
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    mutants: dict[tuple[str, str, str, str, int], Mutant] = {}
    for change in _Changes(source, starts).visit_module(ast.parse(source)):
        mutated = source[: change.start] + change.text + source[change.stop :]
        first = source.rfind(b"\n", 0, change.start) + 1
        last = source.find(b"\n", change.stop)
        tail = len(source) - last
        was = " ".join(source[first:last].decode().split())
        now = " ".join(mutated[first : len(mutated) - tail].decode().split())
        line = source.count(b"\n", 0, change.start) + 1
        mutant = Mutant(
            file, change.function, change.at_import, change.lines, line, was, now, mutated
        )
        if was != now:
            mutants.setdefault((*mutant.key, line), mutant)
    return sorted(mutants.values(), key=lambda mutant: mutant.line)


@dataclass(frozen=True)
class _Change:
    start: int
    stop: int
    text: bytes
    function: str
    at_import: bool
    lines: tuple[int, int]


class _Changes:
    """Walks a tree; places are offsets in the bytes of the source."""

    def __init__(self, source: bytes, starts: list[int]) -> None:
        self.source, self.starts = source, starts
        self.function: list[str] = []
        self.at_import = True
        self.lines = (1, 1)
        self.bound: dict[str, int] = {}

    def visit_module(self, tree: ast.Module) -> Iterator[_Change]:
        for statement in tree.body:
            yield from self._statement(statement)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[
            node.end_lineno - 1
        ] + node.end_col_offset

    def _change(self, start: int, stop: int, text: bytes) -> _Change:
        return _Change(start, stop, text, ".".join(self.function), self.at_import, self.lines)

    def _around(self, node: ast.expr, before: bytes, after: bytes) -> _Change:
        start, stop = self._span(node)
        return self._change(start, stop, before + self.source[start:stop] + after)

    def _off_by_one(self, node: ast.expr, sign: str) -> _Change:
        simple = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        if simple:
            return self._around(node, b"", f" {sign} 1".encode())
        return self._around(node, b"(", f") {sign} 1".encode())

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[_Change]:
        """The operator between two operands replaced."""
        start, stop = self._span(left)[1], self._span(right)[0]
        gap = self.source[start:stop]
        if b"#" not in gap:
            pattern = rb"\bnot\s+in\b|\bis\s+not\b" if " " in old else re.escape(old.encode())
            yield self._change(start, stop, re.sub(pattern, new.encode(), gap, count=1))

    def _statement(self, node: ast.stmt) -> Iterator[_Change]:
        assert node.end_lineno is not None
        body = getattr(node, "body", None)
        self.lines = (
            node.lineno,
            (body[0].lineno - 1 if isinstance(body, list) else node.end_lineno),
        )
        self.lines = self.lines[0], max(self.lines)
        if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from self._definition(node)
            return
        if (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        ):
            return
        if _can_go(node, self.bound):
            yield self._change(*self._span(node), b"pass")
        if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield self._change(*self._span(node.value), b"None")
        if isinstance(node, ast.If | ast.While):
            yield self._around(node.test, b"not (", b")")
        if isinstance(node, ast.AugAssign) and type(node.op) in _BINARY:
            old, new = _BINARY[type(node.op)]
            yield from self._between(node.target, node.value, f"{old}=", f"{new}=")
        for name, value in ast.iter_fields(node):
            if name == "annotation":
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.expr | ast.withitem):
                    yield from self._expression(child)
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            for child in getattr(node, name, []):
                if isinstance(child, ast.ExceptHandler | ast.match_case):
                    for inner in child.body:
                        yield from self._statement(inner)
                else:
                    yield from self._statement(child)

    def _definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> Iterator[_Change]:
        bound, at_import = self.bound, self.at_import
        if not isinstance(node, ast.ClassDef):
            for default in [*node.args.defaults, *node.args.kw_defaults]:
                if default is not None:
                    yield from self._expression(default)
            self.bound = {
                argument.arg: 0 for argument in ast.walk(node.args) if isinstance(argument, ast.arg)
            }
            for name in ast.walk(node):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    self.bound[name.id] = min(self.bound.get(name.id, name.lineno), name.lineno)
            self.at_import = False
        self.function.append(node.name)
        if not _is_stub(node):
            for statement in node.body:
                yield from self._statement(statement)
        self.function.pop()
        self.bound, self.at_import = bound, at_import

    def _expression(self, node: ast.AST) -> Iterator[_Change]:
        if isinstance(node, ast.JoinedStr):  # places within are not known before Python 3.12
            return
        if isinstance(node, ast.Call | ast.Subscript) and ast.unparse(node).startswith(
            "types."
        ):  # numba's
            return
        if isinstance(node, ast.Compare):
            for left, operator, right in zip(
                [node.left, *node.comparators], node.ops, node.comparators, strict=False
            ):
                yield from self._between(left, right, *_COMPARE[type(operator)])
        elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY and not _is_text(node):
            yield from self._between(node.left, node.right, *_BINARY[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self._between(left, right, old, new)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
            opening = b"" if self._bare(node) else b"("
            yield self._change(self._span(node)[0], self._span(node.operand)[0], opening)
        elif isinstance(node, ast.IfExp):
            yield self._around(node.test, b"not (", b")")
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield self._around(test, b"not (", b")")
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "range"
        ):
            stop = node.args[0] if len(node.args) == 1 else node.args[1]
            if not isinstance(stop, ast.Constant | ast.Starred):
                yield self._off_by_one(stop, "-")
                yield self._off_by_one(stop, "+")
            if len(node.args) > 1 and not isinstance(node.args[0], ast.Constant):
                yield self._off_by_one(node.args[0], "+")
        elif isinstance(node, ast.Slice):
            for bound, sign in ((node.lower, "+"), (node.upper, "-")):
                if bound is not None and not isinstance(bound, ast.Constant):
                    yield self._off_by_one(bound, sign)
        for child in ast.iter_child_nodes(node):
            yield from self._expression(child)

    def _bare(self, node: ast.UnaryOp) -> bool:
        """Whether no parenthesis stands between a sign and what it belongs to."""
        return b"(" not in self.source[self._span(node)[0] : self._span(node.operand)[0]]

    def _constant(self, node: ast.Constant) -> Iterator[_Change]:
        value = node.value
        if isinstance(value, bool):
            yield self._change(*self._span(node), repr(not value).encode())
        elif isinstance(value, int | float):
            for other in (value + 1, type(value)(0)):
                if other != value:
                    yield self._change(*self._span(node), repr(other).encode())


def _can_go(node: ast.stmt, bound: dict[str, int]) -> bool:
    """Whether the code may run without a statement."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom)
    if isinstance(node, ast.Assign):
        targets = [
            t
            for target in node.targets
            for t in (target.elts if isinstance(target, ast.Tuple) else [target])
        ]
        return all(
            not isinstance(t, ast.Name) or bound.get(t.id, node.lineno) < node.lineno
            for t in targets
        )
    return isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Raise)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.BinOp) -> bool:
    """Whether strings are joined or formatted: another operator does not run at all."""
    sides = (node.left, node.right)
    return any(
        isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str | bytes)
        for side in sides
    )


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether the body says nothing: overloads and protocols."""
    return all(isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) for s in node.body)
