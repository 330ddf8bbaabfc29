"""A Griffe extension: what our docstrings write in short, written out.

low, high: bounds        two arguments {options}                arguments that a decorator fills in,
as the function has them once it is imported
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from typing import Any

import griffe

_SEVERAL = re.compile(r"^( +)((?:\w+, )+\w+): ", re.MULTILINE)


class WrittenOut(griffe.Extension):
    """Change docstrings, and signatures that a decorator changes, before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every object once its members are known."""
        if obj.docstring is None:
            return
        if "{options}" in obj.docstring.value and isinstance(obj, griffe.Function):
            _as_imported(obj)
        obj.docstring.value = "\n".join(_split(obj.docstring.value.split("\n")))


def _as_imported(function: griffe.Function) -> None:
    """Take docstring and keyword arguments from the function itself."""
    real = pkgutil.resolve_name(function.canonical_path)
    assert function.docstring is not None
    function.docstring.value = inspect.getdoc(real) or ""
    known = {parameter.name for parameter in function.parameters}
    for name, parameter in inspect.signature(real).parameters.items():
        if name not in known:
            kind = griffe.ParameterKind.keyword_only
            default = None if parameter.default is parameter.empty else repr(parameter.default)
            annotation = (
                None if parameter.annotation is parameter.empty else str(parameter.annotation)
            )
            function.parameters.add(
                griffe.Parameter(name, kind=kind, default=default, annotation=annotation)
            )
    left = [p for p in function.parameters if p.kind is not griffe.ParameterKind.var_keyword]
    if len(left) > len(known) - 1:
        function.parameters = griffe.Parameters(*left)


def _split(lines: list[str]) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(lines):
        head = _SEVERAL.match(lines[at])
        if head is None:
            out.append(lines[at])
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end].startswith(head[1] + " "):
            end += 1
        rest = lines[at][head.end() :]
        for name in head[2].split(", "):
            out += [f"{head[1]}{name}: {rest}", *lines[at + 1 : end]]
        at = end
    return out
