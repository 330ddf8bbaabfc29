"""Standard words: names use the field's own terms, and module docstrings begin with a noun (docs/glossary.md)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import boostrank

PACKAGE = Path(boostrank.__file__).parent

# A question or a verb in the place of the noun.
NO_NOUNS = {
    "are", "check", "does", "everything", "find", "from", "how", "is", "load", "nothing", "rank", "read", "run", "sort",
    "something", "train", "what", "when", "where", "whether", "which", "who", "whom", "whose", "why", "working",
    "write",
}  # fmt: skip

# Words of our own, and the field's.
INSTEAD = {
    "bill": "plan", "bills": "plans", "crew": "workers", "facts": "profile", "filing": "file_tools",
    "force": "gradient", "forces": "gradients", "lanes": "simd", "mine": "the thing's own name",
    "peer": "worker", "peers": "collective", "placing": "shards", "said": "the thing's own name",
    "tally": "column_stats", "told": "the thing's own name", "way": "route or plan", "ways": "routes or plans",
}  # fmt: skip
PHRASES = {"add_up": "all_reduce", "addup": "AllReduce"}
MODULES = {
    "descent": "objective_trace", "local_effects": "ale", "moves": "rank_changes", "pairs": "why",
    "permuting": "permutation_importance", "prefixes": "staged_metrics", "query": "shared_params",
    "reporting": "errors", "swaps": "counterfactuals", "words": "intrinsics",
}  # fmt: skip


def defined_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names that a module gives: variables, arguments, attributes, functions, classes. Those of others it may use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno


def words_instead(name: str) -> list[str]:
    """What a name should say for each word of it that is not the field's."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    phrases = [better for phrase, better in PHRASES.items() if phrase in name.lower()]
    return [INSTEAD[word] for word in words if word in INSTEAD] + phrases


def modules() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def test_the_check_finds_what_it_looks_for():
    assert words_instead("_told_objective") == ["the thing's own name"]
    assert words_instead("toldFacts") == ["the thing's own name", "profile"]
    assert words_instead("AddUp") == ["AllReduce"]
    assert words_instead("_add_up") == ["all_reduce"]
    assert not words_instead("untold_reinforcement")
    source = "def told(mine):\n    self.said = 1\n    for way in x: pass\n    import a as bill\n    class Crew: pass"
    assert {name for name, _ in defined_names(ast.parse(source))} == {"told", "mine", "said", "way", "bill", "Crew"}


@pytest.mark.parametrize("path", modules())
def test_names_are_standard_words(path):
    found = [
        f"{path}:{line}: {name!r}: {better}"
        for name, line in defined_names(ast.parse((PACKAGE / path).read_text()))
        for better in words_instead(name)
    ]
    parts = (PACKAGE / path).relative_to(PACKAGE).with_suffix("").parts
    found += [f"{path}: {part!r}: {better}" for part in parts for better in words_instead(part)]
    if parts[-1].strip("_") in MODULES:
        found.append(f"{path}: {MODULES[parts[-1].strip('_')]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", modules())
def test_module_docstrings_begin_with_a_noun(path):
    docstring = ast.get_docstring(ast.parse((PACKAGE / path).read_text()))
    assert docstring, f"{path} says nothing about itself"
    first = re.match(r"\W*(\w*)", docstring)[1]
    assert first.lower() not in NO_NOUNS, f"{path}: {docstring.splitlines()[0]}"
