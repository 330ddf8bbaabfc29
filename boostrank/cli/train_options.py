"""Options of `boostrank train`."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import click

from boostrank.cli.clicks import click_columns_option
from boostrank.cli.config import read_config
from boostrank.cli.options import (
    ASSIGNMENT,
    COUNT,
    CUTOFFS,
    DURATION,
    GAIN_HELP,
    DataFile,
    FloatRange,
    InputFile,
    ObjectiveName,
    OutputFile,
    Parsed,
    conventions_option,
    option,
    threads_option,
    with_options,
)
from boostrank.cli.plan import memory_limit_option
from boostrank.core.errors import did_you_mean
from boostrank.engines import DEFAULT_BACKEND, ENGINES

# As in boostrank.fit.params and boostrank.planning.plan, which are heavy to import.
DEFAULT_OBJECTIVE = "auto"
LINEAR = "linear"
BACKENDS = tuple(ENGINES)
START_WORDS = ("auto", LINEAR, "none")
ROUTES = ("auto", "memory", "bins", "external")
OBJECTIVE, TREES, METRICS, OUTPUT = "Objective", "Trees", "Metrics and stopping", "Data and output"
FEATURES, MODELS, CHECKPOINTS, MEMORY = "Start and features", "How many models", "Checkpoints", "Memory and machines"
MOST_USED = (
    "model", "valid", "quality", "objective", "metrics", "rounds", "early_stopping", "folds", "seed", "threads",
)  # fmt: skip

_objective, _trees, _metrics, _output = (partial(option, section=s) for s in (OBJECTIVE, TREES, METRICS, OUTPUT))
_features, _models, _checkpoints, _memory = (
    partial(option, section=s) for s in (FEATURES, MODELS, CHECKPOINTS, MEMORY)
)


class StartFile(InputFile):
    """A linear model's file; or a word: what else trees may begin with."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in START_WORDS:
            return str(value)
        hint = did_you_mean(str(value), START_WORDS, list_all=False)
        if hint and not os.path.exists(value):
            self.fail(f"{value}: no such file.{hint}", param, ctx)
        return super().convert(value, param, ctx)


def scheduler(given: str) -> str:
    """An address or a file; a blank one, of a variable that is not set, would train on this machine alone."""
    if not given.strip():
        raise ValueError("it is blank: give a scheduler, or leave --dask out")
    return given


config_option = _output(
    "--config", type=InputFile(), is_eager=True, callback=read_config,
    help="TOML file: long option names as keys, tables [set] and [param]. The command line wins.",
)  # fmt: skip
# What is trained, and how it is measured.
training_options = with_options(
    _objective("--objective", metavar="NAME", type=ObjectiveName(),
               show_default=f"{DEFAULT_OBJECTIVE}; of --backend linear, smooth-ndcg",
               help="See `boostrank objectives`; a mixture, 'mix(shf-sdcg, regression)'; an engine's own, "
                    "lightgbm:lambdarank; one of your own, my.py."),
    _objective("--set", "settings", multiple=True, type=ASSIGNMENT,
               help="Parameter of the objective: sigma=0.5, score_noise=gumbel, or a schedule, "
                    "'sigma=geometric(64,0.0156)'; may be repeated."),
    _objective("--gain", help=GAIN_HELP),
    _trees("--backend", type=click.Choice(BACKENDS), default=DEFAULT_BACKEND,
           help="Tree engine; or linear, scores X w, whose rounds are steps of an optimiser."),
    _trees("--rounds", type=COUNT, default=100, help="Rounds to train."),
    _trees("--learning-rate", type=FloatRange(0, min_open=True), show_default="0.1",
           help="Share of each tree that is added."),
    _trees("--num-leaves", type=click.IntRange(2), show_default="31", help="Leaves of a tree, at most."),
    _trees("--param", "params", multiple=True, type=ASSIGNMENT,
           help="Any parameter of the engine, as min_data_in_leaf=50; may be repeated."),
    _trees("--seed", type=click.IntRange(0), help="Seed of everything random."),
    threads_option(TREES),
    _metrics("--metric", "metrics", multiple=True, metavar="NAME", show_default="ndcg",
             help="ndcg, map@10, ...; may be repeated."),
    _metrics("--eval-at", type=CUTOFFS, show_default="1,3,5,10",
             help="Ranks at which a metric without its own is cut."),
    conventions_option(METRICS),
    _metrics("--early-stopping", type=COUNT,
             help="Stop after N rounds without a better value of the first metric, at its largest cut-off, on the "
                  "first --valid file, or on the fold that is held out; keep the best round. An objective that changes "
                  "over the rounds is watched once it has settled."),
)  # fmt: skip
within_query_options = with_options(
    _features("--within-query", metavar="KIND,...",
            help="Columns beside each feature, of what it is among the documents of its query: rank, zscore, best (the "
                 "difference to the largest), mean (to the mean). The model computes them by itself."),
    _features("--of", metavar="F,...|auto", show_default="all that are numbers",
            help="The features that --within-query is of, by name or number; auto: all, if cross-validation over "
                 "whole queries finds a gain beyond chance."),
)  # fmt: skip


def _pareto(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Say where the sweep over mixes is."""
    if value is not None:
        raise click.UsageError(
            f"mixes of two goals have a command of their own: boostrank pareto TRAIN --goal '{value}' -o pareto.html; "
            "then train with the --gain that it prints", context
        )  # fmt: skip


train_options = with_options(
    training_options,
    _output("--clicks", is_flag=True,
            help="Learn from FILE.clicks beside TRAIN (`row,position,impressions,clicks`) in place of labels: clicks "
                 "over exposure, of the documents that were shown. --valid files need theirs too."),
    click_columns_option(section=OUTPUT),
    _output("--propensities", metavar="FILE", type=InputFile(), show_default="estimated from documents that moved",
            help="How likely each position is looked at: what `boostrank propensities` wrote."),
    _output("--click-prior", metavar="X", type=FloatRange(0), show_default="1",
            help="Exposure without a click that every document is given besides."),
    _models("--pareto", metavar="COLUMN", expose_value=False, is_eager=True, callback=_pareto,
            help="Mixes of the label and a second goal have a command of their own, `boostrank pareto`."),
    _output("--valid", multiple=True, type=DataFile(),
            help="Evaluate on this file, or files ('valid/*.gz') as one set; may be repeated. Training on folds deals "
                 "its queries into them: one model is measured on a query, the others learn from it."),
    _output("-m", "--model", required=True, type=OutputFile(), help="Where the model is written."),
    _features("--init-model", type=InputFile(), help="Continue this model."),
    _features("--start", metavar="auto|linear|none|FILE", type=StartFile(), default="auto", show_default=False,
            help="Trees begin with the scores of a linear model, which the model then holds: linear makes a "
                 "cross-fitted regression first, in seconds; FILE is one that --backend linear wrote; auto, the "
                 "default, is linear for the objective auto, none for others. LightGBM and XGBoost."),
    within_query_options,
    _models("--quality", type=click.Choice(("plain", "quick", "good")), show_default="good",
            help="Defaults of everything that no option sets. good: train one model on each of 4 folds of queries, "
                 "with another objective or start in each, and average them into one file. quick: one training, with "
                 "trees that suit the data, stopped early if there is --valid. plain: one training, with the defaults "
                 "below."),
    _models("--folds", metavar="K", type=click.IntRange(2),
            help="Hold out each of K folds of whole queries once, stop a model on each, and average the K models into "
                 "one file."),
    _models("--max-trees", metavar="N", type=COUNT,
            help="Maximum number of trees in the model, including the linear start (one per feature). Later rounds are "
                 "cut, of each fold alike."),
    _models("--max-microseconds", metavar="U", type=FloatRange(0, min_open=True),
            help="Maximum time to score a document, timed here on one thread; a line tells the --max-trees that "
                 "repeats the model."),
    _checkpoints("--checkpoint-every", type=COUNT,
            help="Write a checkpoint every N rounds, and when Ctrl-C or SIGTERM stops the training."),
    _checkpoints("--checkpoint", metavar="FILE", type=OutputFile(), show_default="MODEL.checkpoint",
            help="Where it lies; it goes when the model is written."),
    _checkpoints(
        "--resume", is_flag=True,
        help="Go on from the checkpoint, if there is one, to the same model byte for byte: the same command again.",
    ),
    _memory("--route", type=click.Choice(ROUTES), default="auto",
            help="How the features are held: as floats in memory; streamed into bins; or with the bins on disk too "
                 "(external, XGBoost). auto: the first of them that fits; floats in memory may take half of what is "
                 "free."),
    memory_limit_option(MEMORY),
    _memory("--cache", metavar="DIR", type=click.Path(file_okay=False), show_default=".boostrank-cache beside the data",
            help="Where streamed data are remembered, so that the next start does not read them; streams."),
    _memory("--no-cache", is_flag=True, help="Remember nothing."),
    config_option,
    _memory("--dask", type=Parsed("SCHEDULER", scheduler), is_eager=True,
            help="Train on the workers of a Dask cluster: tcp://HOST:PORT, the scheduler's file, or local:2 for two "
                 "workers here. Each worker reads some of the files; the engine is XGBoost."),
    _memory("--worker-timeout", metavar="DURATION", type=DURATION, show_default="60s",
            help="With --dask: a worker that has not answered for so long, because it is stopped or its machine is, "
                 "ends the training, status 4."),
    _output("--log", metavar="FILE.jsonl", type=OutputFile(),
            help="Append the metrics of every round to this file, a line of JSON each; of one training."),
    _output("--json", "as_json", is_flag=True, help="Print the summary as one JSON object."),
)  # fmt: skip
