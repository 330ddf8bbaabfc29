"""OpenSearch 2 and up to 3.1: what a document lacks is 0 there."""

from dataclasses import replace
from functools import partial

from boostrank.export.consumers.opensearch import read
from boostrank.export.targets import opensearch

SPEC = replace(
    opensearch.SPEC,
    name="opensearch-2",
    title="OpenSearch 2.0 to 3.1",
    read=partial(read, version=(2, 19, 6)),
    proved_by="an emulator of the plugin's XGBoostJsonParser 2.19",
    helps={"missing": "before 3.2 what a document lacks is 0 to OpenSearch: fill it in before training; "},
)
