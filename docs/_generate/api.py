"""The API reference: a page a module, a section each name in its `__all__`, from the docstrings by
mkdocstrings.
"""

from __future__ import annotations

from importlib import import_module

# page -> (title, [(module, what to list: None for its `__all__`)])
_PAGES: dict[str, tuple[str, str, list[tuple[str, tuple[str, ...] | None]]]] = {
    "boostrank": (
        "boostrank",
        (
            "What `import boostrank` gives. Nothing heavy is imported before it is used. Every"
            " objective of the registry is a name too, in CapWords: `boostrank.ShfSdcg(sigma=0.5)`"
            ' is `boostrank.Objective("shf-sdcg", sigma=0.5)`.'
        ),
        [("boostrank", None)],
    ),
    "metric": (
        "boostrank.metrics",
        "Metrics of a ranking, and their conventions.",
        [("boostrank.metrics", None)],
    ),
    "data": (
        "boostrank.data, boostrank.files",
        "Generated data, the writer, and tools for files that never cut a query.",
        [
            ("boostrank.data.synthetic", ("make_ranking_data",)),
            ("boostrank.files.writer", ("write_libsvm",)),
            ("boostrank.files.tools", None),
        ],
    ),
    "files": (
        "boostrank.from_files",
        "What follows `boostrank.train_files`, and can stop it.",
        [("boostrank.from_files", ("Observer", "StopRequest", "FoldSummary"))],
    ),
    "report": (
        "boostrank.reporting",
        "What a ranker is worth, and what it rests on.",
        [("boostrank.reporting", None)],
    ),
    "sklearn": (
        "boostrank.sklearn",
        "The ranker and the splitters for scikit-learn.",
        [("boostrank.sklearn", None)],
    ),
    "tuning": ("boostrank.tuning", "The search for parameters.", [("boostrank.tuning", None)]),
    "cluster": (
        "boostrank.cluster",
        "Training on several machines.",
        [("boostrank.cluster", None)],
    ),
    "model": (
        "boostrank.model",
        "Model files and the record beside them, `MODEL.meta.json`.",
        [("boostrank.records", ("ModelInfo",))],
    ),
    "checking": (
        "boostrank.checking",
        "The check of an objective of your own.",
        [("boostrank.checking", None)],
    ),
    "tracking": (
        "boostrank.tracking",
        "Callbacks that tell of every round.",
        [("boostrank.tracking", None)],
    ),
    "schedules": (
        "boostrank.schedules",
        "Parameters that follow the round.",
        [
            (
                "boostrank.schedules",
                ("parse_schedule",),
            )
        ],
    ),
}


# Names of `boostrank` that stand on a page of another section.
_ELSEWHERE = {
    "ObjectiveSpec": "../design/kernel-contract.md",
    "Param": "../design/kernel-contract.md",
}


def pages() -> dict[str, str | bytes]:
    """`api/index.md` and a page a module; what has several names is described under the first."""
    made: dict[str, str | bytes] = {}
    index = ["# Python\n", "| module | what it holds |", "|---|---|"]
    described: dict[int, tuple[str, str]] = {}
    for page, (title, text, parts) in _PAGES.items():
        lines = [f"# {title}\n", f"{text}\n"]
        for module, listed in parts:
            home = import_module(module)
            for name in listed or [name for name in home.__all__ if not name.startswith("_")]:
                full, target = f"{module}.{name}", _ELSEWHERE.get(name, "")
                known, where = described.setdefault(
                    id(getattr(home, name)), (full, target or f"{page}.md")
                )
                if known == full and not target:
                    lines.append(f"::: {full}\n")
                else:
                    anchor = "" if target else f"#{known}"
                    lines.append(f"`{full}`: see [`{known}`]({where}{anchor}).\n")
        made[f"api/{page}.md"] = "\n".join(lines)
        index.append(f"| [`{title}`]({page}.md) | {text} |")
    index.append(
        "\nWhat an author of objectives needs beside these stands under [the kernel"
        " contract](../design/kernel-contract.md), what one of metrics, formats and sections needs"
        " under [extension points](../design/extending.md)."
    )
    return {"api/index.md": "\n".join(index)} | made
