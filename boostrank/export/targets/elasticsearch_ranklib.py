"""Elasticsearch's learning-to-rank plugin, any version: `model/ranklib`."""

from dataclasses import replace

from boostrank.export.search_plugins import write_ranklib
from boostrank.export.targets import elasticsearch

SPEC = replace(
    elasticsearch.SPEC,
    name="elasticsearch-ranklib",
    title="Elasticsearch with any LTR plugin, as RankLib's XML",
    write=write_ranklib,
    proved_by="an emulator of RankLib's LambdaMART",
    how=(
        "features: a feature set with all the model's features, in the model's order: POST _ltr/_featureset/SET",
        *elasticsearch.SPEC.how[1:],
    ),
    helps={
        "missing": "to RankLib what a document lacks is 0: fill it in before training, or take the target without "
        "-ranklib; "
    },
    aliases=("es-ranklib",),
)
