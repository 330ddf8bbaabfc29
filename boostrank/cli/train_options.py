"""What can be said to `boostrank train`."""

from __future__ import annotations

from typing import Any

import click

from boostrank.cli.config import read_config
from boostrank.cli.options import (
    Assignment,
    Cutoffs,
    DataFile,
    InputFile,
    conventions_option,
    option,
    threads_option,
    with_options,
)
from boostrank.cli.plan import memory_limit_option

# As in boostrank.training.params, boostrank.backends and boostrank.planning.plan, which are heavy to import.
DEFAULT_OBJECTIVE = "auto"
LINEAR = "linear"
BACKENDS = ("lightgbm", "xgboost", LINEAR)
START_WORDS = ("auto", LINEAR, "none")
ROUTES = ("auto", "memory", "bins", "external")
OBJECTIVE, TREES, METRICS, OUTPUT = "Objective", "Trees", "Metrics and stopping", "Data and output"


class StartFile(InputFile):
    """A linear model's file; or a word: what else trees may begin with."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value) if value in START_WORDS else super().convert(value, param, ctx)


train_options = with_options(
    option(
        "--valid", multiple=True, type=DataFile(), section=OUTPUT,
        help="Evaluate on this file, or files ('valid/*.gz') as one set; may be repeated.",
    ),
    option("-m", "--model", required=True, type=click.Path(), section=OUTPUT, help="Where the model is written."),
    option("--init-model", type=InputFile(), section=OUTPUT, help="Continue this model."),
    option(
        "--start", metavar="auto|linear|none|FILE", type=StartFile(), default="auto", section=OUTPUT,
        help="Trees begin with the scores of a linear model, which the model then holds: linear makes a cross-fitted "
        "regression first, in seconds; FILE is one that --backend linear wrote; auto, the default, is linear for the "
        "objective auto, none for others. LightGBM.",
    ),
    option(
        "--folds", metavar="K", type=click.IntRange(2), section=OUTPUT,
        help="In place of --valid: hold out each of K folds of whole queries once, stop a model on each, and average "
        "the K models into one file.",
    ),
    option(
        "--checkpoint-every", metavar="N", type=click.IntRange(1), section=OUTPUT,
        help="Write a checkpoint every N rounds, and when Ctrl-C or SIGTERM stops the training.",
    ),
    option(
        "--checkpoint", metavar="FILE", type=click.Path(), show_default="MODEL.checkpoint", section=OUTPUT,
        help="Where it lies; it goes when the model is written.",
    ),
    option(
        "--resume", is_flag=True, section=OUTPUT,
        help="Go on from the checkpoint, if there is one, to the same model byte for byte: the same command again.",
    ),
    option(
        "--route", type=click.Choice(ROUTES), default="auto", show_default=True, section=OUTPUT,
        help="How the features are held: as floats in memory; streamed into bins; or with the bins on disk too "
        "(external, XGBoost). auto: the first of them that fits; floats in memory may take half of what is free.",
    ),
    memory_limit_option(OUTPUT),
    option(
        "--cache", metavar="DIR", type=click.Path(file_okay=False), section=OUTPUT,
        show_default=".boostrank-cache beside the data",
        help="Where streamed data are remembered, so that the next start does not read them; streams.",
    ),
    option("--no-cache", is_flag=True, section=OUTPUT, help="Remember nothing."),
    option(
        "--config", type=InputFile(), is_eager=True, callback=read_config, section=OUTPUT,
        help="TOML file: long option names as keys, tables [set] and [param]. The command line wins.",
    ),
    option(
        "--dask", metavar="SCHEDULER", is_eager=True, section=OUTPUT,
        help="Train on the workers of a Dask cluster: tcp://HOST:PORT, the scheduler's file, or local:2 for two "
        "workers here. Each worker reads some of the files; the engine is XGBoost.",
    ),
    option("--json", "as_json", is_flag=True, section=OUTPUT, help="Print the summary as one JSON object."),
    option(
        "--objective", metavar="NAME", section=OBJECTIVE,
        show_default=f"{DEFAULT_OBJECTIVE}; of --backend linear, smooth-ndcg",
        help="See `boostrank objectives`; a mixture, 'mix(shf-sdcg, regression)'; an engine's own, "
        "lightgbm:lambdarank; one of your own, my.py.",
    ),
    option(
        "--set", "settings", multiple=True, type=Assignment(), section=OBJECTIVE,
        help="Parameter of the objective: sigma=0.5, score_noise=gumbel, or a schedule, 'sigma=geometric(64,0.0156)'; "
        "may be repeated.",
    ),
    option("--gain", section=OBJECTIVE, help="Gain of a label: exponential, linear, or a table 0,1,3,7."),
    option(
        "--backend", type=click.Choice(BACKENDS), default="lightgbm", show_default=True, section=TREES,
        help="Tree engine; or linear, scores X w, whose rounds are steps of an optimiser.",
    ),
    option(
        "--rounds", metavar="N", type=click.IntRange(1), default=100, show_default=True, section=TREES,
        help="Rounds to train.",
    ),
    option(
        "--learning-rate", metavar="X", type=click.FloatRange(0, min_open=True), show_default="0.1", section=TREES,
        help="Share of each tree that is added.",
    ),
    option(
        "--num-leaves", metavar="N", type=click.IntRange(2), show_default="31", section=TREES,
        help="Leaves of a tree, at most.",
    ),
    option(
        "--param", "params", multiple=True, type=Assignment(), section=TREES,
        help="Any parameter of the engine, as min_data_in_leaf=50; may be repeated.",
    ),
    option("--seed", metavar="N", type=click.IntRange(0), section=TREES, help="Seed of everything random."),
    threads_option(TREES),
    option(
        "--metric", "metrics", multiple=True, metavar="NAME", section=METRICS, show_default="ndcg",
        help="ndcg, map@10, ...; may be repeated.",
    ),
    option(
        "--eval-at", type=Cutoffs(), section=METRICS, show_default="1,3,5,10",
        help="Ranks at which a metric without its own is cut.",
    ),
    conventions_option(METRICS),
    option(
        "--early-stopping", metavar="N", type=click.IntRange(1), section=METRICS,
        help="Stop after N rounds without a better value of the first metric, at its largest cut-off, on the first "
        "--valid file; keep the best round. An objective that changes over the rounds is watched once it has settled.",
    ),
)  # fmt: skip
