"""How plainly the package is written: counts a file, which may fall and never rise. `make check`
runs it.

    python .ci/plain.py            # compare with .ci/plain.txt, and name each place of a count that
    rose python .ci/plain.py --write    # lower the list after a count fell

Counted are names that say nothing of what they hold (`pronouns`), conditional expressions in an
argument, in another, or second in their statement (`ternaries`), functions called by a preposition
or participle (`bare`), bodies of over 25 lines without a comment (`uncommented`), generators
unpacked into names (`unpacked`), and lines of over 100 columns (`long`).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".txt")
NAMELESS = frozenset(
    {"one", "own", "found", "given", "known", "made", "here", "rest", "place", "held"}
    | {"wanted", "named", "shown", "told", "said", "some", "these", "those"}
)
BARE = frozenset(
    {"of", "over", "joined", "named", "shown", "capped", "limited", "owned", "prepared", "measured"}
    | {"settled", "settle", "told", "tell", "wanted", "whole", "made", "found", "given", "kept"}
    | {"held", "known", "heeded"}
)


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the variable, parameter or attribute that a node binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name


def conditionals(node: ast.AST, hidden: bool = False) -> Iterator[tuple[ast.IfExp, bool]]:
    """Yield the conditional expressions of a statement, and whether each is in an argument or in
    another one.
    """
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.stmt):
                continue
            inside = hidden or (isinstance(node, ast.Call) and field in ("args", "keywords"))
            if isinstance(child, ast.IfExp):
                yield child, inside
            yield from conditionals(child, inside or isinstance(child, ast.IfExp))


def find_places(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield (count, line, name) for every place in a file that is not plain."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if len(line) > 100:
            yield "long", number, f"{len(line)} columns"
    for node in ast.walk(ast.parse(text)):
        for name in bound_names(node):
            if name in NAMELESS:
                yield "pronouns", getattr(node, "lineno", 0), name
        if isinstance(node, ast.stmt):
            for position, (conditional, hidden) in enumerate(conditionals(node)):
                if hidden or position:
                    yield "ternaries", conditional.lineno, "if ... else"
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.GeneratorExp):
            is_unpacked = any(isinstance(target, ast.Tuple) for target in node.targets)
            if is_unpacked:
                yield "unpacked", node.lineno, "= (... for ...)"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.strip("_") in BARE:
                yield "bare", node.lineno, node.name
            first = node.body[min(ast.get_docstring(node) is not None, len(node.body) - 1)]
            body = [
                line.strip() for line in lines[first.lineno - 1 : node.end_lineno] if line.strip()
            ]
            if len(body) > 25 and not any("# " in line for line in body):
                yield "uncommented", node.lineno, f"{node.name}: {len(body)} lines"


def count_places(places: list[tuple[str, int, str]]) -> dict[str, int]:
    """Return the number of places of each count."""
    counts: dict[str, int] = {}
    for kind, _, _ in places:
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def main() -> int:
    """Compare the counts with the list, or write it. Return the exit status."""
    places = {
        path.relative_to(ROOT).as_posix(): list(find_places(path))
        for path in sorted((ROOT / "boostrank").rglob("*.py"))
    }
    counts = {file: count_places(file_places) for file, file_places in places.items()}
    if "--write" in sys.argv:
        rows = [
            f"{file} {' '.join(f'{kind}={number}' for kind, number in sorted(kinds.items()))}\n"
            for file, kinds in counts.items()
            if kinds
        ]
        LIST.write_text("".join(rows), encoding="utf-8")
        return 0
    allowed: dict[str, dict[str, int]] = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        file, *pairs = line.split()
        allowed[file] = {
            kind: int(number) for kind, _, number in (pair.partition("=") for pair in pairs)
        }
    risen = [
        (file, kind)
        for file, kinds in counts.items()
        for kind, number in kinds.items()
        if number > allowed.get(file, {}).get(kind, 0)
    ]
    for file, kind in risen:
        for place_kind, line, name in places[file]:
            if place_kind == kind:
                sys.stdout.write(f"{file}:{line}: {kind}: {name}\n")
    if risen:
        sys.stdout.write(f"{len(risen)} counts are above .ci/plain.txt: see CONTRIBUTING, Style\n")
    return 1 if risen else 0


if __name__ == "__main__":
    sys.exit(main())
