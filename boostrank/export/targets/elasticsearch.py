"""Elasticsearch's learning-to-rank plugin from 1.5.10: `model/xgboost+json`."""

from boostrank.export.consumers.elasticsearch import read
from boostrank.export.search_plugins import HOW, write_dump
from boostrank.export.target import TargetSpec

SPEC = TargetSpec(
    name="elasticsearch",
    title="Elasticsearch with the LTR plugin 1.5.10 or later",
    write=write_dump,
    read=read,
    proved_by="an emulator of the plugin's XGBoostJsonParser 1.5.12",
    how=HOW,
    finite=True,
    aliases=("es",),
)
