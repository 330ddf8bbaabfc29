"""`boostrank train --dask`: the same command on the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from boostrank.cli.errors import say
from boostrank.cli.interrupt import StopRequest, graceful_stop
from boostrank.cli.progress import RoundProgress
from boostrank.cli.reading import reading_of
from boostrank.cli.saving import save_or_rescue
from boostrank.fit.callbacks import StopWhenAsked

if TYPE_CHECKING:
    from boostrank.model.ranking_model import RankingModel


def backend_for(context: click.Context, backend: str) -> str:
    """XGBoost, unless another engine was asked for.

    Raises:
        InputError: LightGBM was.
        UsageError: options about memory, which workers decide by themselves.
    """
    from boostrank.core.errors import InputError

    for name in ("route", "cache", "no_cache", "memory_limit"):
        if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT):
            raise click.UsageError(
                f"--{name.replace('_', '-')} is for one machine: workers always stream their shards into bins", context
            )
    if context.get_parameter_source("backend") is ParameterSource.DEFAULT or backend == "xgboost":
        return "xgboost"
    raise InputError(
        "--dask trains with XGBoost: LightGBM gives nobody a sum over its workers, so neither the metric nor "
        "the moment to stop would be the same on all of them. Leave --backend out"
    )


def check_libsvm(context: click.Context, given: Mapping[str, Any]) -> None:
    """Refuse what workers do not read.

    Raises:
        UsageError: tables, names of features, and expressions over columns.
    """
    from boostrank.core.gains import expression_of

    if given["data_format"] not in ("auto", "libsvm"):
        raise click.UsageError(f"--format {given['data_format']} is for one machine: workers read libsvm text", context)
    if expression_of(given["gain"]) is not None:
        raise click.UsageError("--gain of columns is for one machine: write such gains as labels, and --gain linear",
                               context)  # fmt: skip
    if given["feature_names"]:
        raise click.UsageError("--feature-names is for one machine: workers go by number", context)


def train_on_cluster(
    params: Mapping[str, Any], given: Mapping[str, Any], shards: Sequence[str], valid: Sequence[str],
    names: Sequence[str], metric: str | None, model: str,
) -> tuple[RankingModel, RoundProgress, StopRequest]:  # fmt: skip
    """Train and save.

    Args:
        params: as for `boostrank.train`, early stopping included.
        given: values of the options.
        shards: training files or patterns.
        valid, names: validation sets, a file or pattern each, and what they are called.
        metric: that progress shows.
        model: where the model goes.

    Returns:
        The model, its progress, and whether somebody has ended the training early.
    """
    from boostrank.cluster import connected, train

    every = given["checkpoint_every"] or 0
    so_far = f"{model}.so-far"
    with connected(given["dask"]) as client, graceful_stop() as stop:
        with RoundProgress(metric) as progress, contextlib.redirect_stdout(sys.stderr):
            trained = train(
                client, params, shards, given["rounds"], [[path] for path in valid], names,
                init_model=given["init_model"], start=given["start"], callbacks=[progress, StopWhenAsked(stop)],
                conventions=given["conventions"], reading=reading_of(given), checkpoint=so_far if every else None,
                checkpoint_every=every, tell=say,
                **({"worker_timeout": given["worker_timeout"]} if given["worker_timeout"] else {}),
            )  # fmt: skip
        stop.saving = True
        save_or_rescue(trained, model)
        if every:
            for written in (so_far, f"{so_far}.meta.json"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(written)
    stop.heeded = stop.heeded and progress.rounds < progress.total
    return trained, progress, stop
