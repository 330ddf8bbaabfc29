"""Old module names: what version 0.1.0 called them still imports, and warns."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_TABLE = """
    backends.costs=planning.costs backends.lgb=backends.lightgbm.backend backends.lgb_start=formats.lightgbm.start
    backends.lgb_stream=backends.lightgbm.stream backends.linear_features=backends.linear.features
    backends.linear_model=formats.linear backends.linear_risk=backends.linear.risk
    backends.linear_rounds=backends.linear.rounds backends.linear_steps=backends.linear.solvers
    backends.resume=backends.snapshot backends.xgb=backends.xgboost.backend
    backends.xgb_params=backends.xgboost.params backends.xgb_stream=backends.xgboost.stream
    backends.xgb_workers=backends.xgboost.workers bound=objective.bound cluster.crew=cluster.workers
    cluster.peers=cluster.collective cluster.placing=cluster.shards cluster.trainer=cluster.train
    core.atomic=core.files core.sizes=core.formatting data.doctor.facts=data.doctor.profile data.route=core.machine
    data.sidecar=data.libsvm.side_files data.stored=data.store data.stream=data.libsvm.stream
    data.survey=planning.sample data.writer=data.libsvm.writer kernels.assignment=kernels.ranks.assignment
    kernels.composition=kernels.objective.options kernels.cumulated=kernels.metric.cumulated
    kernels.curves=kernels.trees.curves kernels.decimal=data.libsvm.decimal kernels.define=kernels.objective.define
    kernels.driver=kernels.objective.driver kernels.expsum=kernels.sums.expsum
    kernels.expsum_grades=kernels.sums.expsum_grades kernels.expsum_hinges=kernels.sums.expsum_hinges
    kernels.forest=kernels.trees.walker kernels.gain_nodes=kernels.sums.gain_nodes
    kernels.gauss_moves=kernels.sums.gauss_rank_changes kernels.gauss_sums=kernels.sums.gauss_sums
    kernels.hinge_ranks=kernels.ranks.hinge kernels.jit=kernels.runtime.jit
    kernels.lambda_sums=kernels.sums.lambda_sums kernels.lanes=kernels.runtime.simd
    kernels.lattice=kernels.sums.lattice kernels.margin_pairs=kernels.ranks.margin
    kernels.metric_driver=kernels.metric.driver kernels.metric_spec=kernels.metric.contract
    kernels.query=kernels.objective.shared_params kernels.rank_matrix=kernels.ranks.soft_matrix
    kernels.rank_tables=kernels.sums.rank_tables kernels.relevance=kernels.objective.relevance
    kernels.rows=kernels.runtime.vector_rows kernels.smooth_dcg=kernels.ranks.smooth_dcg
    kernels.soft_contests=kernels.ranks.soft kernels.soft_ranks=kernels.ranks.sigmoid
    kernels.softmax=kernels.losses.softmax kernels.spec=kernels.objective.contract
    kernels.squared_error=kernels.losses.squared_error kernels.vectors=kernels.runtime.private
    kernels.words=kernels.runtime.intrinsics mixture=objective.mixture objective_file=checking.user_file
    report.compare_page=report.comparison.page report.descent=report.sections.learning.objective_trace
    report.differences=report.comparison.result report.feature_worth=report.sections.importance.result
    report.gate=report.comparison.gate report.importances=report.sections.importance.analysis
    report.interactions=report.sections.shapes.interactions report.learning=report.sections.learning.analysis
    report.local_effects=report.sections.shapes.ale report.metrics=report.conventions.analysis
    report.moves=report.rank_changes report.pairs=report.explanation.analysis
    report.permuting=report.sections.importance.permutation_importance
    report.prefixes=report.sections.learning.staged_metrics report.query_values=report.sections.queries.analysis
    report.redundancy=report.sections.importance.redundancy report.reports=report.page
    report.shapes=report.sections.shapes.analysis report.single_feature=report.sections.verdict.single_feature
    report.swaps=report.explanation.counterfactuals report.target=report.conventions.target
    report.verdict=report.sections.verdict.analysis report.why_page=report.explanation.page
    resampling=core.resampling training.bill=planning.plan training.described=training.provenance
    training.forest=formats.trees training.gradient=training.guarded_gradient
    training.lightgbm_text=formats.lightgbm.format training.model_text=formats.model_files
    training.trainer=training.train training.tree_shape=formats.trees training.xgboost_json=formats.xgboost
"""
MOVED = dict(pair.split("=") for pair in _TABLE.split())
"""Module of 0.1.0 -> where its contents are now; both below `boostrank`."""


class _OldNames(MetaPathFinder, Loader):
    """Finds a module of an old name after everybody else has failed to; it becomes the new module itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = fullname.removeprefix("boostrank.") in MOVED and fullname.startswith("boostrank.")
        return ModuleSpec(fullname, self) if known else None

    def exec_module(self, module: ModuleType) -> None:
        new = f"boostrank.{MOVED[module.__name__.removeprefix('boostrank.')]}"
        warnings.warn(f"{module.__name__} is now {new}; the old name will go", FutureWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(new)


def install() -> None:
    """Let old names be imported; a second call changes nothing."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.append(_OldNames())
