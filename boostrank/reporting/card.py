"""Model cards, from a model's record and its report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from boostrank.core.errors import ParameterError
from boostrank.core.files import write_atomically
from boostrank.model.ranking_model import RankingModel
from boostrank.records import jsonable
from boostrank.reporting.html import environment
from boostrank.reporting.sections.verdict import Verdict


@dataclass(frozen=True)
class Card:
    """A page about a model: data, objective, parameters, metrics with intervals, and limits.

    Args:
        content: the fields as JSON data.
    """

    content: Mapping[str, Any]

    def to_markdown(self) -> str:
        """Return Markdown with the YAML header of Hugging Face's model cards."""
        card = self.content
        metrics = [
            {"type": row["metric"], "value": row["value"], "name": row["metric"]}
            for row in card["metrics"]
        ]
        dataset = {"name": card["tested_on"] or "test data", "type": "private"}
        evaluation = {"task": {"type": "text-ranking"}, "dataset": dataset, "metrics": metrics}
        header = {
            "license": card["license"] or "other",
            "library_name": "boostrank",
            "tags": ["learning-to-rank", card["backend"]],
            "model-index": [{"name": card["name"], "results": [evaluation]}],
        }
        lines = [f"{name}: {_to_yaml(value)}" for name, value in header.items()]
        text = environment().get_template("card.md").render(card=card, header="\n".join(lines))
        return str(text)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the card as Markdown.

        Raises:
            ParameterError: another ending.
            TrainingError: the file cannot be written.
        """
        check_ending(path)
        write_atomically(path, self.to_markdown().encode("utf-8", "backslashreplace"))


def _to_yaml(value: Any) -> str:
    """Return JSON that is YAML too, where escapes of characters beyond 16 bits mean others."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def check_ending(path: str | PathLike[str]) -> None:
    """Raise ParameterError for a path that does not end like a card."""
    if Path(path).suffix != ".md":
        raise ParameterError(f"{path}: a card is Markdown, so its name must end in .md")


def card_of(
    model: RankingModel, name: str, data_name: str, verdict: Verdict | None, license: str | None
) -> Card:
    """Return the card of a model.

    Args:
        verdict: the metrics on test data.
        license: identifier of a license, such as "mit"; None if it is not stated.

    Raises:
        ParameterError: there is no verdict.
    """
    if verdict is None:
        raise ParameterError("a card needs the metrics: include the section verdict in the report")
    info = model.info
    # What the model cannot do.
    limits = ["Scores order the documents of one query. They have no unit."]
    if info.calibration is None:
        limits.append("Scores of different queries are not comparable: there is no calibration.")
    if model.columns.kinds:
        limits.append("Scores depend on the other documents: score whole queries.")
    if info.data is None:
        limits.append("The file has no record of its training.")
    # What the record and the report say.
    content = {
        "name": name,
        "license": license,
        "backend": model.backend,
        "objective": info.objective,
        "parameters": info.parameters,
        "training": info.training,
        "averaged_models": len(info.averaged or ()),
        "data": info.data,
        "features": model.feature_names,
        "versions": info.versions,
        "tested_on": data_name,
        "queries": verdict.queries,
        "documents": verdict.documents,
        "conventions": verdict.conventions.describe(),
        "metrics": [vars(standing) for standing in verdict.model.standings.values()],
        "baselines": verdict.table().select(metric=verdict.metric).rows()[1:],
        "limits": [*limits, *verdict.notes],
    }
    return Card(jsonable(content))
