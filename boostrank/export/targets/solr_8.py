"""Solr before 9.2: what a document lacks is 0 there."""

from dataclasses import replace
from functools import partial

from boostrank.export.consumers.solr import read
from boostrank.export.targets import solr

SPEC = replace(
    solr.SPEC,
    name="solr-8",
    title="Solr 7 to 9.1",
    write=partial(solr.write, missing=False),
    read=partial(read, version=(9, 1)),
    proved_by="an emulator of Solr 9.1's MultipleAdditiveTreesModel",
    how=("features: in the feature store by the names in {file}; what a document lacks is 0", *solr.SPEC.how[1:]),
    helps={"missing": "before 9.2 what a document lacks is 0 to Solr: fill it in before training; "},
)
