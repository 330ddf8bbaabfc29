"""Exported files in the emulators of their programs: the same scores as by the rules that the proof
reads them by.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from boostrank.export import TARGETS
from boostrank.export.proof import parity_pack, prove
from boostrank.export.target import ExportError
from tests.consumers import elastic, elasticsearch, opensearch, solr, vespa
from tests.export.conftest import KINDS, example

EMULATORS = {
    "elastic": elastic.read,
    "elasticsearch": elasticsearch.read,
    "opensearch": opensearch.read,
    "opensearch-2": partial(opensearch.read, version=(2, 19, 6)),
    "solr": solr.read,
    "vespa": vespa.read,
}


@pytest.mark.parametrize("name", EMULATORS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_emulator_gives_the_scores_of_the_proof(name: str, kind: str) -> None:
    target, of = TARGETS.get(name), example(kind)
    if kind.endswith("categories"):
        assert [objection.kind for objection in target.objections(categorical=["shop"])] == [
            "categories"
        ]
        return
    # Rows of every kind that the target's format can hold.
    body = target.write(of.served)
    names = of.served.feature_names
    pack = parity_pack(of.served.trees.forest, len(names), 20_000)
    excluded = "infinite" if target.finite else "random"
    others = pack.kind != excluded
    pack = replace(pack, rows=pack.rows[others], kind=pack.kind[others])
    # The emulator's scores are those of the rules by which we prove.
    emulated = EMULATORS[name](body, names)(pack.rows.astype(np.float64))
    by_rules = target.scorer(body, names)(pack.rows)
    if target.rules.gives is np.float32:
        np.testing.assert_array_equal(emulated, by_rules)
    else:
        relative = 1e-6 if name.startswith("vespa") else 0
        np.testing.assert_allclose(emulated, by_rules, rtol=relative, atol=1e-6)
    # Both refuse a model for the same reason, or neither does.
    refusals = []
    for checked_target in (target, replace(target, read=EMULATORS[name])):
        try:
            prove(of.model, of.served, checked_target, body)
            refusals.append("")
        except ExportError as error:
            refusals.append(str(error))
    assert refusals[0] == refusals[1]
