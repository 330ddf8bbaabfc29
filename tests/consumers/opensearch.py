"""OpenSearch's learning-to-rank plugin: a fork of Elasticsearch's, with the rules of its own
versions.

From the source of opensearch-project/opensearch-learning-to-rank-base, tags 2.1.0 to 3.8.0.0 and
after. What a document has no value for is 0 up to 3.1 and in all of 2.x, goes right at every split
in 3.2 to 3.7.0, and goes where the split says since 3.8 (and in patches of 3.6 and 3.7); since then
a model may ask for 0 by `missing_as_zero`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.consumers.elasticsearch import OBJECTIVES, Absent, Missing, Plugin, scorer
from tests.consumers.trees import Scorer


def read(body: bytes, feature_names: Sequence[str], *, version: tuple[int, ...] = (3, 8)) -> Scorer:
    """A function that scores as the plugin does, float32[n].

    Args:
        body: what is posted to `_ltr/_featureset/NAME/_createmodel`.
        feature_names: features of that set: the columns.
        version: of OpenSearch, with its patch for patches of an older line: (3, 7, 1).

    Raises:
        ModelError: the plugin refuses the model.
    """
    version = tuple(version)
    directed = version >= (3, 8) or (version[:2] in ((3, 6), (3, 7)) and version[2:3] >= (1,))
    absent: Absent = "0"
    if directed:
        absent = "default"
    elif version >= (3, 2):
        absent = "right"
    absent_raw = absent if version >= (2, 19, 2) else None
    missing: Missing = "a child" if directed else "any"
    objectives = OBJECTIVES if version >= (3, 2) else OBJECTIVES - {"rank:ndcg", "rank:map"}
    return scorer(
        body,
        feature_names,
        Plugin(
            "OpenSearch",
            absent=absent,
            absent_raw=absent_raw,
            missing=missing,
            objectives=objectives,
            missing_as_zero=version >= (3, 9),
        ),
    )
