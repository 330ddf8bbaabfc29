"""OpenSearch's learning-to-rank plugin, any version: `model/ranklib`."""

from dataclasses import replace

from boostrank.export.consumers.opensearch import read
from boostrank.export.targets import elasticsearch_ranklib

SPEC = replace(
    elasticsearch_ranklib.SPEC,
    name="opensearch-ranklib",
    title="OpenSearch, any version, as RankLib's XML",
    read=read,
    aliases=(),
)
