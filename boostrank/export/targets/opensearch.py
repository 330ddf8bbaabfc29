"""OpenSearch's learning-to-rank plugin from 3.8: `model/xgboost+json`."""

from boostrank.export.consumers.opensearch import read
from boostrank.export.search_plugins import HOW, write_dump
from boostrank.export.target import TargetSpec

SPEC = TargetSpec(
    name="opensearch",
    title="OpenSearch 3.8 or later",
    write=write_dump,
    read=read,
    proved_by="an emulator of the plugin's XGBoostJsonParser 3.8",
    how=HOW,
    finite=True,
)
