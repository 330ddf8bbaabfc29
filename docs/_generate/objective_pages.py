"""A page an objective, made from the registry: what it declares, its module's text, and a picture
of its gradient.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from textwrap import dedent

from pictures import picture

from boostrank.cli.objectives import default_of, typed, weighs
from boostrank.core.params import Param
from boostrank.kernels.objective import ObjectiveSpec
from boostrank.kernels.options import OPTIONS
from boostrank.objective.mixture import AUTO, MIXTURE_PARAMS
from boostrank.objectives import OBJECTIVES

_INDEX = """# Objectives

Each of them is one file, `boostrank/objectives/NAME.py`; these pages are made from what it declares.
[Which one?](../guide/objectives.md#which-one) says what is known about the choice.

{table}

The default, `auto`, is `{auto}`: on LightGBM with [a linear start](../guide/training.md#a-linear-start).

## Options that every objective takes

{options}

## Of a mixture

`mix(FIRST, SECOND, ...)`, each as `NAME` or `NAME(parameter=value, ...)`:

{mixture}

## The pictures

Every page has four, drawn by the objective's own kernel with its default parameters, before the Hessian is scaled:

* **Gradient of a pair.** Two documents, one relevant (grade 1), one not: the pull that brings the relevant one up
  (minus the loss's derivative by its score), against how far it is above the other. Left of 0 the order is wrong.
* **Curvature of a pair.** The Hessian of the relevant one there: what a leaf's sum of gradients is divided by.
* **Weight of a rank.** One relevant document (grade 3) at each rank of a list of 30, scores 0.25 apart: its pull.
* **A graded list.** Twelve documents of the grades 0 to 4, scores 0.25 apart: who is pulled up, and who down.
"""

_PICTURE = (
    "![The gradient and curvature of {name} for a pair, its weight by rank, its gradient on a"
    " graded list]({name}.svg)"
)


def pages(specs: Iterable[ObjectiveSpec] = OBJECTIVES) -> dict[str, str | bytes]:
    """`objectives/index.md`, a page and a picture an objective."""
    options, mixture = _params(OPTIONS), _params(MIXTURE_PARAMS)
    index = _INDEX.format(table=table(specs), auto=AUTO, options=options, mixture=mixture)
    made: dict[str, str | bytes] = {"objectives/index.md": index}
    for spec in specs:
        made[f"objectives/{spec.name}.md"] = page(spec)
        made[f"objectives/{spec.name}.svg"] = picture(spec)
    return made


def table(specs: Iterable[ObjectiveSpec]) -> str:
    """The table of objectives, each name a link to its page."""
    rows = [
        "| objective | what it is | parameters (default) | Hessian | source |",
        "|---|---|---|---|---|",
    ]
    for spec in specs:
        params = (
            ", ".join(f"`{p.name}` ({typed(default_of(spec, p))})" for p in spec.params) or "none"
        )
        cells = (
            f"[`{spec.name}`]({spec.name}.md)",
            spec.summary,
            params,
            spec.hessian.value,
            spec.reference,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def page(spec: ObjectiveSpec) -> str:
    """What an objective declares, with its picture."""
    module = sys.modules.get(spec.kernel.py_func.__module__) or importlib.import_module(
        spec.kernel.py_func.__module__
    )
    title, _, body = (module.__doc__ or "").strip().partition("\n\n")
    body, _, example = body.partition("\n\nExample:\n\n")
    shown_example = ["## Example", "", "```pycon", dedent(example).strip(), "```", ""]
    if not example:
        shown_example = []
    own = {**spec.default_schedules, **spec.default_options}
    facts = {
        "also called": ", ".join(f"`{name}`" for name in spec.aliases),
        "Hessian": spec.hessian.value,
        "gradient": (
            "the derivative of the loss that is shown"
            if spec.exact_gradient
            else "not the whole derivative of the loss: see the definition"
        ),
        "cost": (
            "n^2 for a query of n documents"
            if spec.quadratic
            else "near-linear in the length of a query"
        ),
        "weight of a document": weighs(spec),
        "random": "draws numbers; one `seed`, one sequence of gradients" if spec.random else "",
        "schedules": ", ".join(f"`{name}={text}`" for name, text in spec.default_schedules.items()),
        "own defaults of options": ", ".join(
            f"`{name}={value}`" for name, value in spec.default_options.items()
        ),
        "source": spec.reference,
    }
    rows = [f"| {name} | {_cell(text)} |" for name, text in facts.items() if text]
    parameters = _params(spec.params, own) if spec.params else "None."
    return "\n".join(
        [
            f"# {spec.name}",
            "",
            f"{_sentence(spec.summary)}",
            "",
            "| | |",
            "|---|---|",
            *rows,
            "",
            _PICTURE.format(name=spec.name),
            "",
            "The four panels are explained [below the list of objectives](index.md#the-pictures).",
            "",
            "## Definition",
            "",
            title.strip(),
            "",
            body.strip("\n"),
            "",
            *shown_example,
            "## Parameters",
            "",
            parameters,
            "",
            (
                "Beside these it takes [the options of every"
                " objective](index.md#options-that-every-objective-takes)."
            ),
            "",
        ]
    )


def _params(params: tuple[Param, ...], own: dict[str, object] | None = None) -> str:
    rows = [
        "| parameter | default | allowed | unit | schedule | what it is |",
        "|---|---|---|---|---|---|",
    ]
    for param in params:
        default = (own or {}).get(param.name, param.default)
        default = next((word for word, level in param.levels if level == default), default)
        text = str(default).lower() if isinstance(default, bool) else str(default)
        also = (
            f" (also {', '.join(f'`{alias}`' for alias in param.aliases)})" if param.aliases else ""
        )
        cells = (
            f"`{param.name}`",
            f"`{text}`",
            param.range,
            param.unit,
            "yes" if param.schedulable else "",
            param.help + also,
        )
        rows.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(rows)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
