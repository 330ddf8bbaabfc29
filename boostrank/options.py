"""Every option of training, reading and measuring, declared once as a field of a dataclass.

A declaration has the type, default, bounds, help text, group and conflicts of an option. Command line flags, `--help`,
keys of `--config`, the checks of values, the signatures of Python functions and the documentation are made from it.
To add an option, add a field to the class of its group in the help, and the code that uses its value.

Nothing heavy is imported: `boostrank COMMAND --help` is made from this module.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import inspect
import io
import math
import numbers
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.text import parse_size, typed_value

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", int, float)

LARGEST_MAX_FEATURE = 2**31 - 2

_WORDS = ("choices", "params", "conflicts")
SAME: Any = object()
"""Sentinel: use the default."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One declared option.

    Args:
        name, kind, default: of the field; `kind` is its annotation without `None`: "int", "bool", "tuple[str, ...]".
        help: sentences for users.
        group: heading under which `--help` lists the option.
        choices: allowed words.
        ge, gt, le: bounds of a number, inclusive except for `gt`.
        flag: name on the command line; empty: made from the field's name; None: an option of Python only.
        short: one-letter flag, as "-m".
        metavar: placeholder for the value in `--help`.
        shown: default in words, where `default` is None and something else decides.
        unset: value when the command line does not give the option, where it differs from Python's default.
        parse: turns the text from the command line into the value; raises ValueError.
        file: "read", "write", "stream" (a file to write, or standard output), "data", "folder", "objective" (a name
            or a Python file).
        positional: an argument of the command line in place of a flag.
        required: the command line must give it.
        common: listed by the short `--help`.
        params: names of the option in `params` of `boostrank.train`, LightGBM's own first.
        conflicts: options that must not be given together with this one.
        needs: an option without which this one has no effect.
        alone: refused with workers of a cluster.
    """

    help: str
    name: str = ""
    kind: str = ""
    default: Any = None
    group: str = "Options"
    choices: tuple[str, ...] = ()
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    flag: str | None = ""
    short: str = ""
    metavar: str = ""
    shown: str = ""
    unset: Any = SAME
    parse: Callable[[str], Any] | None = None
    file: str = ""
    positional: bool = False
    required: bool = False
    common: bool = False
    params: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    needs: str = ""
    alone: bool = False

    @property
    def several(self) -> bool:
        """Whether the flag may be repeated."""
        return self.kind.startswith(("tuple", "Mapping"))

    @property
    def spelled(self) -> str:
        """The flag of the command line; the name in Python for an option that has none."""
        if self.flag is None:
            return self.name
        return self.flag or "--" + self.name.replace("_", "-")

    @property
    def range(self) -> str:
        """The allowed values in words: "at least 1", "0 to 1", "stop, keep, missing"."""
        if self.choices:
            return ", ".join(self.choices)
        low = f"above {self.gt:g}" if self.gt is not None else f"at least {self.ge:g}" if self.ge is not None else ""
        if self.le is None:
            return low or "any number"
        return f"{self.ge:g} to {self.le:g}" if self.ge is not None else ", ".join([low, f"at most {self.le:g}"])

    def is_default(self, value: Any) -> bool:
        """Whether a value is the default; arrays never are."""
        plain = isinstance(value, str | int | float | tuple | Mapping)
        return value is self.default or (plain and bool(value == self.default))

    def check(self, value: Any) -> None:
        """Check a value against the choices, the type of number and the bounds."""
        if value is None or self.is_default(value):
            return
        if self.choices and isinstance(value, str) and value not in self.choices:
            raise ParameterError(f"{self.name}={value!r} is not known.{did_you_mean(value, self.choices)}")
        if self.kind not in ("int", "float"):
            return
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ParameterError(f"{self.name}={value!r} is not a number; allowed: {self.range}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if self.kind == "int" and math.isfinite(number) and not number.is_integer():
            raise ParameterError(f"{self.name}={value!r} is not a whole number; allowed: {self.range}")
        inside = (
            math.isfinite(number)
            and (self.ge is None or number >= self.ge)
            and (self.gt is None or number > self.gt)
            and (self.le is None or number <= self.le)
        )
        if not inside:
            raise ParameterError(f"{self.name}={value!r} is out of range; allowed: {self.range}")


def option(default: Any, help: str, **declared: Any) -> Any:
    """Declare an option as a field of a dataclass.

    Args:
        default: value of an option that is not given.
        help: sentences for users.
        declared: other fields of `Option`; choices, params and conflicts as words in one text.
    """
    words = {name: tuple(declared[name].split()) for name in _WORDS if isinstance(declared.get(name), str)}
    metadata = {"option": (help, declared | words)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def declared(struct: type[Any]) -> Mapping[str, Option]:
    """The options of a struct by name: those of its bases first, each class in the order of declaration."""
    own, *bases = struct.__mro__
    fields, found = {one.name: one for one in dataclasses.fields(struct)}, {}
    for home in (*bases, own):
        for name in inspect.get_annotations(home):
            field = fields.get(name)
            if field is not None and "option" in field.metadata:
                help, given = field.metadata["option"]
                default = {} if field.default is dataclasses.MISSING else field.default
                kind = "str" if field.type == "Any" else str(field.type).removesuffix(" | None")
                words = {"kind": kind, "group": getattr(home, "GROUP", "Options")} | given
                found[name] = Option(help=help, name=name, default=default, **words)
    return found


def contradictions(
    known: Mapping[str, Option], given: Collection[str], spell: Callable[[Option], str]
) -> Iterator[str]:
    """Yield messages about options that must not be given together, or without another.

    Args:
        known: options by name.
        given: names of those that are given.
        spell: name of an option in the messages.
    """
    for one in (known[name] for name in known if name in given):
        for other in one.conflicts:
            if other in given:
                yield f"{spell(one)} and {spell(known[other])} cannot be used together"
        if one.needs in known and one.needs not in given:
            yield f"{spell(one)} is for {spell(known[one.needs])}, which is not given"


def takes_options(options: Iterable[Option], *, alone: bool = True) -> Callable[[F], F]:
    """Decorator: show declared options in place of `**options` in a function's signature.

    Args:
        alone: refuse other names.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    shown = [inspect.Parameter(one.name, keyword, default=one.default) for one in options]

    def decorated(function: F) -> F:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [one for one in shown if one.name not in signature.parameters]
        known = {one.name for one in (*own, *more)}

        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            for name in (one for one in given if alone and one not in known):
                hint = did_you_mean(name, known, list_all=False)
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}.{hint}")
            return function(*args, **given)

        checked.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorated


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of the structs of options: checks each value, and conflicts between options.

    Args:
        group: heading of the options that a class declares, given after its base class.
    """

    GROUP: ClassVar[str] = "Options"

    def __init_subclass__(cls, *, group: str = "") -> None:
        cls.GROUP = group or "Options"

    def __post_init__(self) -> None:
        for name, one in declared(type(self)).items():
            value = getattr(self, name)
            one.check(value)
            if one.kind == "int" and value is not None:
                object.__setattr__(self, name, int(value))
        for message in contradictions(declared(type(self)), self.changed, lambda one: one.name):
            raise ParameterError(message)

    @property
    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        known = declared(type(self))
        return {name: value for name, one in known.items() if not one.is_default(value := getattr(self, name))}


# Parsers of text from the command line. Each raises ValueError, whose message becomes the error.


def parse_assignment(text: str) -> tuple[str, int | float | bool | str]:
    """(name, value) of `name=value`; the value becomes a number, true, false, or stays text."""
    name, equals, value = text.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name.strip(), typed_value(value.strip())


def parse_parts(text: str) -> dict[str, float]:
    """`train=0.8,valid=0.1,test=0.1`."""
    try:
        pairs = [(name.strip(), float(share)) for name, share in (part.split("=") for part in text.split(","))]
    except ValueError:
        raise ValueError(f"{text!r} is not of the form train=0.8,valid=0.1,test=0.1") from None
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"{text!r} names a part twice")
    return dict(pairs)


def parse_workers(text: str) -> str:
    """Parse --cluster; refuse blank text, such as an unset variable."""
    if not text.strip():
        raise ValueError("it is blank: say who starts the workers, or leave --cluster out")
    return text


def parse_ranks(text: str) -> tuple[int, ...]:
    """`1,3,5,10`."""
    found = _numbers(text, int)
    if not found or min(found) < 1:
        raise ValueError(f"{text!r} is not a list of ranks such as 1,3,5,10")
    return found


def parse_shares(text: str) -> tuple[float, ...]:
    """`0,0.25,0.5,1`."""
    found = _numbers(text, float)
    if not all(0.0 <= share <= 1.0 for share in found) or not any(found):
        raise ValueError(f"{text!r} is not a list of shares such as 0,0.25,0.5,1")
    return found


def _numbers(text: str, kind: Callable[[str], N]) -> tuple[N, ...]:
    try:
        return tuple(kind(word) for word in text.split(","))
    except ValueError:
        return ()


def parse_seconds(text: str) -> float:
    """`90s`, `30m`, `2h`; a number alone is seconds."""
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:].lower(), 0.0)
    try:
        found = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        found = 0.0
    if not 0.0 < found < math.inf:
        raise ValueError(f"{text!r} is not a duration such as 90s, 30m or 2h")
    return found


def listed_names(text: str) -> tuple[str, ...]:
    """Names between commas, as in a line of CSV: `url,"price, EUR"`."""
    try:
        names = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"{text!r}: {error}; write names with commas in double quotes") from None
    if not names or not all(names):
        raise ValueError(f"{text!r} has an empty name; write names with commas in double quotes")
    return tuple(names)


def typed_names(*names: str) -> str:
    """Quote names for a shell, so that `listed_names` reads them back."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return shlex.quote(line.getvalue())


def parse_label_map(label_map: Mapping[float, float] | str | None) -> dict[float, float]:
    """Old label -> new label, from a mapping or from text such as "-1=0,2=1"."""
    if label_map is None:
        return {}
    try:
        if isinstance(label_map, str):
            pairs = [(float(old), float(new)) for old, new in (part.split("=") for part in label_map.split(","))]
        else:
            pairs = [(float(old), float(new)) for old, new in label_map.items()]
    except (TypeError, ValueError, AttributeError):
        raise ParameterError(f"label_map={label_map!r}: give old=new pairs, e.g. --label-map=-1=0,2=1") from None
    if not all(math.isfinite(number) for pair in pairs for number in pair) or len(dict(pairs)) < len(pairs):
        raise ParameterError(f"label_map={label_map!r}: labels must be finite numbers, each mapped once")
    return dict(pairs)


CONVENTIONS = ("default", "lightgbm", "xgboost", "catboost", "sklearn", "trec", "letor", "mslr")
"""Names of `boostrank.core.conventions.PRESETS`."""
BACKENDS = ("lightgbm", "xgboost", "linear")
"""Names of `boostrank.engines.ENGINES`."""
DEFAULT_EVAL_AT = (1, 3, 5, 10)
DEFAULT_ROUNDS = 100
PLAIN, GOOD = "plain", "good"
"""Presets: a single training with the engine's defaults, and an average over folds."""


def argument(metavar: str, help: str = "", *, default: Any = None, required: bool = True, **declared: Any) -> Any:
    """Declare a positional argument of a command as a field of a dataclass; see `option`."""
    return option(default, help, positional=True, metavar=metavar, required=required, **declared)


@dataclass(frozen=True, kw_only=True)
class ThreadOptions(Options):
    """Threads of a command."""

    threads: int | None = option(
        None,
        "Number of threads. The result does not depend on it.",
        ge=1,
        shown="all allowed cores",
        params="num_threads num_thread nthread nthreads n_jobs",
    )


@dataclass(frozen=True, kw_only=True)
class JsonOptions(Options, group="Results"):
    """Output of a command."""

    as_json: bool = option(False, "Print the result as JSON.", flag="--json")


@dataclass(frozen=True, kw_only=True)
class ConfigOptions(Options, group="Data and output"):
    """A file of options."""

    config: str | None = option(
        None, "TOML file: long option names as keys, tables [set] and [param]. The command line wins.", file="read"
    )


@dataclass(frozen=True, kw_only=True)
class ConventionOptions(Options, group="Metrics and stopping"):
    """Conventions of metrics."""

    gain: Any = option(
        None,
        "Gain of a label: exponential, linear, or a table 0,1,3,7; or an expression over columns per row: "
        "'0.7*label + 0.3*log1p(margin)'.",
        metavar="RULE",
        params="gain label_gain",
    )
    conventions: Any = option(
        None,
        "Handle gains, ties and queries without a relevant document as this program does.",
        choices=CONVENTIONS,
    )


@dataclass(frozen=True, kw_only=True)
class ObjectiveOptions(Options, group="Objective"):
    """Objective options."""

    objective: Any = option(
        None,
        "Training objective; see `boostrank objectives`. Also a mixture, 'mix(shf-sdcg, regression)', one of the "
        "engine, lightgbm:lambdarank, or your own file, my.py.",
        metavar="NAME",
        shown="auto; smooth-ndcg for --backend linear",
        common=True,
        file="objective",
        params="objective objective_type app application loss",
    )
    settings: Mapping[str, Any] = option(
        {},
        "Parameter of the objective: sigma=0.5, score_noise=gumbel, or a schedule, 'sigma=geometric(64,0.0156)'.",
        flag="--set",
        metavar="NAME=VALUE",
        parse=parse_assignment,
    )


@dataclass(frozen=True, kw_only=True)
class TreeOptions(Options, group="Trees"):
    """The engine and its trees."""

    backend: str = option(
        "lightgbm",
        "Tree engine, or linear for scores X w, where a round is a step of the optimiser.",
        metavar="|".join(BACKENDS),
    )
    rounds: int | None = option(
        None,
        "Number of boosting rounds.",
        ge=1,
        le=2**31 - 1,
        shown=str(DEFAULT_ROUNDS),
        common=True,
        params="num_iterations num_iteration n_iter num_tree num_trees num_round num_rounds nrounds num_boost_round "
        "n_estimators max_iter iterations",
    )
    learning_rate: float | None = option(None, "Shrinkage of each tree.", gt=0, shown="0.1", params="learning_rate")
    num_leaves: int | None = option(None, "Maximum number of leaves per tree.", ge=2, shown="31", params="num_leaves")
    params: Mapping[str, Any] = option(
        {},
        "Any other parameter of the engine: min_data_in_leaf=50.",
        flag="--param",
        metavar="NAME=VALUE",
        parse=parse_assignment,
    )
    seed: int | None = option(None, "Random seed.", ge=0, common=True, params="seed random_seed random_state")


@dataclass(frozen=True, kw_only=True)
class StoppingOptions(Options, group="Metrics and stopping"):
    """Metrics of each round, and early stopping."""

    metrics: tuple[str, ...] = option(
        (),
        "Metric to report each round: ndcg, map@10, ...",
        flag="--metric",
        metavar="NAME",
        shown="ndcg",
        common=True,
        params="metric metrics metric_types eval_metric",
    )
    eval_at: Any = option(
        None,
        "Cut-offs of metrics that are named without one.",
        metavar="K,K,...",
        parse=parse_ranks,
        shown="1,3,5,10",
        params="eval_at ndcg_eval_at ndcg_at map_eval_at map_at",
    )
    early_stopping: int | None = option(
        None,
        "Stop when the first metric, at its largest cut-off, has not improved for N rounds on the first --valid file "
        "or the held-out fold. The model keeps the best round. Objectives that change over the rounds are watched "
        "once they have settled.",
        ge=1,
        common=True,
        params="early_stopping_round early_stopping_rounds early_stopping n_iter_no_change",
    )


@dataclass(frozen=True, kw_only=True)
class FitOptions(ObjectiveOptions, TreeOptions, ThreadOptions, StoppingOptions, ConventionOptions):
    """Options of every command that trains: `train`, `tune`, `study noise` and `study pareto`."""

    def flat(self) -> dict[str, Any]:
        """Parameters as one dictionary, as `boostrank.train` takes them; rounds are not among them."""
        found, given = dict(self.params), dict(self.settings)
        if "metric" in given:
            raise ParameterError("--set metric: --metric is reported, and lambdarank(metric=...) trained on")
        for name, one in declared(type(self)).items():
            if name in found and not one.params:
                raise ParameterError(f"{name!r} is no parameter of the engine: pass {one.spelled} separately")
        known = {one.params[0]: one for one in declared(type(self)).values() if one.params and one.name != "rounds"}
        for canonical, one in known.items():
            value = getattr(self, one.name)
            if value is not None and value != ():
                given[canonical] = list(value) if one.name == "metrics" else value
        for name, value in given.items():
            for alias in known[name].params if name in known else (name,):
                if alias in found:
                    raise ParameterError(f"{alias} is given twice: by --param, and by its own option")
            found[name] = value
        return found


@dataclass(frozen=True, kw_only=True)
class WithinQueryOptions(Options, group="Start and features"):
    """Features relative to the other documents of a query."""

    within_query: Any = option(
        None,
        "Add per-query features: rank, zscore, best (difference from the query's maximum) or mean (difference from "
        "its mean). The model computes them itself.",
        metavar="KIND,...",
    )
    of: Any = option(
        None,
        "Features to which within_query applies, by name or number.",
        metavar="F,...",
        shown="all numeric features",
        needs="within_query",
    )


@dataclass(frozen=True, kw_only=True)
class StartOptions(Options, group="Start and features"):
    """Start of the training."""

    start: str | None = option(
        "auto",
        "Scores that the trees start from. linear: those of a cross-fitted ridge regression, which the saved model "
        "includes. auto: linear for the objective auto, otherwise none.",
        choices="auto linear none",
    )


@dataclass(frozen=True, kw_only=True)
class SingleOptions(FitOptions, WithinQueryOptions, StartOptions):
    """Options of a single new training."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(SingleOptions, group="How many models"):
    """Options of a training, shared by `boostrank.train` and `boostrank train`.

    `params` holds what the user gave as a dictionary: in Python all parameters, on the command line those of --param.
    """

    init_model: Any = option(None, "Continue this model.", file="read", group=StartOptions.GROUP, conflicts="folds")
    quality: str | None = option(
        "plain",
        "Defaults for all options that are not given. good: train one model per fold of queries (4 folds), each with "
        "another objective or start, and average them. quick: one training with trees chosen from the data, stopped "
        "early if --valid is given. plain: one training with the defaults of the engine.",
        choices="plain quick good",
        unset=None,
        shown="good",
        common=True,
        alone=True,
    )
    folds: int | None = option(
        None,
        "Train one model per fold of whole queries, stop each on its held-out fold, and average them.",
        metavar="K",
        ge=2,
        common=True,
        alone=True,
    )
    max_trees: int | None = option(
        None,
        "Maximum number of trees in the saved model, including the linear start (one per feature). Later rounds are "
        "cut, in each fold alike.",
        ge=1,
        alone=True,
    )
    checkpoint: Any = option(
        None,
        "Checkpoint file; removed when the model is written.",
        file="write",
        shown="MODEL.checkpoint",
        group="Checkpoints",
    )
    callbacks: Any = option(
        None,
        "Callbacks, called each round of each fold.",
        flag=None,
    )
    feval: Any = option(
        None,
        "Metrics as functions, as in `lgb.train`.",
        flag=None,
        alone=True,
    )

    @property
    def single(self) -> TrainOptions:
        """The same options, with defaults for those that `SingleOptions` lacks."""
        return TrainOptions(**{name: getattr(self, name) for name in declared(SingleOptions)})


KEYWORDS = {
    name: one for name, one in declared(TrainOptions).items() if not one.params and name not in ("params", "settings")
}
"""Options that are keywords of `boostrank.train`; the others are entries of its `params`."""


@dataclass(frozen=True, kw_only=True)
class MemoryOptions(Options, group="Memory and machines"):
    """Memory of a training."""

    memory_limit: int | None = option(
        None,
        "Memory limit of the training, as 800MB or 2GB. The route is chosen to stay below it; if none does, training "
        "is refused.",
        metavar="SIZE",
        parse=parse_size,
        shown="free memory of the machine or the cgroup",
    )


@dataclass(frozen=True, kw_only=True)
class ClickOptions(Options, group="Clicks"):
    """Clicks in place of labels."""

    clicks: bool = option(
        False,
        "Use the data's FILE.clicks (`row,position,impressions,clicks`) in place of labels: clicks over exposure, "
        "of the documents that were shown.",
    )
    click_columns: Any = option(
        None,
        "The clicks are in these columns of the table: position, impressions, clicks; and document, if a document has "
        "a row per position.",
        metavar="COLUMN,...",
        parse=listed_names,
        needs="clicks",
    )


@dataclass(frozen=True, kw_only=True)
class PropensityOptions(ClickOptions, group="Clicks"):
    """Clicks and propensities of positions."""

    propensities: str | None = option(
        None,
        "Propensities of the positions, a file of `boostrank data propensities`.",
        file="read",
        shown="estimated from documents shown at several positions",
        needs="clicks",
    )


@dataclass(frozen=True, kw_only=True)
class TargetOptions(Options, group="Data and output"):
    """Program that will serve the model."""

    target: str | None = option(
        None,
        "Program that will serve the model, a target of `boostrank export --to`: check that it can hold the model.",
        flag="--for",
        metavar="TARGET",
    )


@dataclass(frozen=True, kw_only=True)
class TrainCommand(
    PropensityOptions, MemoryOptions, ConfigOptions, JsonOptions, TargetOptions, group="Data and output"
):
    """Options of `boostrank train` only."""

    train: tuple[str, ...] = argument("TRAIN...", default=(), file="data")
    model: str = option(None, "Model file to write.", short="-m", file="write", required=True)
    valid: tuple[str, ...] = option(
        (),
        "Validation file, or files ('valid/*.gz') as one set. Its queries join the folds: one model is measured on a "
        "query, the others learn from it.",
        file="data",
        common=True,
    )
    log: str | None = option(
        None, "Append the metrics of each round to this file, one line of JSON each.", file="write"
    )
    click_prior: float | None = option(
        None, "Smoothing: click-free exposure added to every document.", ge=0, shown="1", group="Clicks", needs="clicks"
    )
    checkpoint_every: int | None = option(
        None,
        "Write a checkpoint every N rounds, and when Ctrl-C or SIGTERM stops the training.",
        ge=1,
        group="Checkpoints",
    )
    resume: bool = option(
        False,
        "Resume from the checkpoint if it exists. The result is byte-identical to an uninterrupted run.",
        group="Checkpoints",
    )
    route: str = option(
        "auto",
        "How features are held: as floats in memory, streamed into bins, or with bins on disk (external, XGBoost). "
        "auto: the first that fits; floats may take half of the free memory.",
        choices="auto memory bins external",
        group=MemoryOptions.GROUP,
    )
    cache: str | None = option(
        None,
        "Where streamed data are kept, so that the next run does not read them again; none: nowhere. A "
        "directory implies streaming.",
        metavar="DIR|none",
        file="folder",
        shown=".boostrank-cache next to the data",
        group=MemoryOptions.GROUP,
    )
    cluster: str | None = option(
        None,
        "Train on several workers, each of which reads some of the files: local:2, processes here; env, ranks that "
        "torchrun, MPI, Slurm or Kubernetes have started; dask:tcp://HOST:PORT or dask:FILE; spark:2; ray:2.",
        metavar="WORKERS",
        parse=parse_workers,
        group=MemoryOptions.GROUP,
        conflicts="route cache memory_limit log folds checkpoint resume clicks feature_names max_trees",
    )
    worker_timeout: float = option(
        60.0,
        "End the training with status 4 if a worker does not answer for this long.",
        metavar="DURATION",
        parse=parse_seconds,
        shown="60s",
        group=MemoryOptions.GROUP,
        needs="cluster",
    )

    @property
    def inputs(self) -> list[str]:
        """Files that are read."""
        return [*self.train, *self.valid, *filter(None, [self.config])]


@dataclass(frozen=True, kw_only=True)
class MeasureOptions(ConventionOptions, ThreadOptions, JsonOptions, group="Measures"):
    """Options of the commands that measure rankers."""


@dataclass(frozen=True, kw_only=True)
class StudyOptions(MeasureOptions, group="Measures"):
    """Options of `compare` and `report`."""

    segments: str | None = option(None, "File of lines `qid,segment`: show each segment separately too.", file="read")
    noise: str | None = option(
        None, "Output of `boostrank study noise --json`: differences that luck explains are marked.", file="read"
    )
    seed: int = option(0, "Random seed of shuffles and samples.", ge=0)


@dataclass(frozen=True, kw_only=True)
class ReadOptions(Options, group="Reading"):
    """Options of reading data files."""

    missing_tokens: Any = option(
        (),
        "Word for a missing value (NaN), exactly as in the file: NULL, NA.",
        kind="tuple[str, ...]",
        flag="--missing-token",
        metavar="WORD",
    )
    zero_based: Any = option(
        "auto",
        "Whether the first feature has number 0. auto: if number 0 occurs, or as in the training data.",
        choices="auto true false",
    )
    inf: str = option(
        "stop",
        "Refuse values that are infinite or beyond float32, keep them as infinite, or read them as missing.",
        choices="stop keep missing",
    )
    repeated: str = option(
        "stop",
        "Refuse a feature that a row of libsvm text gives twice, or keep its first or last value.",
        choices="stop first last",
    )
    on_bad_line: str = option(
        "stop", "Stop at the first row that cannot be read, or skip such rows and count them.", choices="stop skip"
    )
    max_bad_share: float = option(
        0.001, "Refuse the data if more than this share of the rows would be skipped.", ge=0, le=1
    )
    regroup: bool = option(False, "Group scattered rows of a query, in their order.")
    label_map: Any = option(None, "Replace labels, keep the others: -1=0,2=1.", metavar="OLD=NEW,...")
    strict: bool = option(False, "Turn warnings about the data into errors.")
    max_feature: int = option(2**24, "Largest feature number to accept.", ge=1, le=LARGEST_MAX_FEATURE)
    max_bytes: int | None = option(None, "Refuse more text than this, uncompressed, over all files.", ge=1, flag=None)
    n_features: int | None = option(
        None, "Number of features; larger numbers are refused. None: the largest number in the files.", ge=1, flag=None
    )
    layout: str = option(
        "auto",
        "Storage of features; auto: dense when at least half of the cells are present. Values are the same.",
        choices="auto dense csr",
        flag=None,
    )
    label: str | None = option(
        None,
        "Label column of a table (CSV, TSV, Parquet, Arrow).",
        metavar="COLUMN",
        shown="label, relevance, grade or rating",
    )
    qid: str | None = option(None, "Query id column of a table.", metavar="COLUMN", shown="qid, query_id or query")
    weight: str | None = option(
        None, "Weight column of a table. Weights that differ within a query are weights of documents.", metavar="COLUMN"
    )
    id: str | None = option(
        None,
        "Column of a table that names the documents. It is no feature.",
        metavar="COLUMN",
        shown="doc_id, docno, product_id or sku",
    )
    drop: Any = option(
        None,
        "Columns of a table that are not features: brand,url. Quote names with commas.",
        kind="tuple[str, ...]",
        metavar="COLUMN,...",
        parse=listed_names,
    )
    categorical: Any = option(
        None,
        "Columns of a table that hold categories as text. Categories declared by Parquet or Arrow files are known.",
        kind="tuple[str, ...]",
        metavar="COLUMN,...",
        parse=listed_names,
    )
    gain: Any = option(
        None,
        "Expression over columns, 0.7*label + 0.3*log1p(margin), that replaces the labels. Dropped columns may occur.",
        flag=None,
    )
    feature_names: Any = option(
        None, "File with feature names for libsvm text: one name per line, or lines `1: name`.", file="read"
    )
    keep_names: bool | None = option(
        None,
        "Keep the names of documents (the column `id`, comments of libsvm text) and the words of queries (lines "
        "`# qid:1: words` of libsvm text). None: if `id` is given.",
        flag=None,
    )

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if not isinstance(self.zero_based, str):
            put("zero_based", "auto" if self.zero_based is None else str(bool(self.zero_based)).lower())
        super().__post_init__()
        if self.n_features is not None and self.n_features > self.max_feature + 1:
            raise ParameterError(f"n_features={self.n_features!r} is out of range; allowed: 1 to max_feature + 1")
        tokens = (self.missing_tokens,) if isinstance(self.missing_tokens, str) else tuple(self.missing_tokens)
        for token in tokens:
            if not token or any(c.isspace() or c in "#:" or not c.isprintable() for c in token):
                raise ParameterError(f"missing token {token!r} must be a word without blanks, ':' and '#'")
        put("missing_tokens", tokens)
        for name in ("drop", "categorical"):
            given = getattr(self, name)
            try:
                words = listed_names(given) if isinstance(given, str) else given or ()
            except ValueError as error:
                raise ParameterError(f"{name}={error}") from None
            put(name, tuple(map(str, words)) or None)
        put("label_map", parse_label_map(self.label_map) or None)
        if self.gain is not None:
            from boostrank.core.conventions import expression_of

            expression = expression_of(self.gain)
            if expression is None:
                raise ParameterError(f"gain={self.gain!r} is no expression over columns: train and metrics take it")
            put("gain", expression.text)


@dataclass(frozen=True, kw_only=True)
class FileOptions(ReadOptions, group="Reading"):
    """Options of reading files of any format."""

    data_format: str = option(
        "auto",
        "Format of the data: libsvm, csv, tsv, parquet or arrow. auto: by the endings of the files, else by their "
        "content.",
        flag="--format",
        metavar="NAME",
    )

    @property
    def keywords(self) -> dict[str, Any]:
        """The format, and the options that differ from their defaults, as keywords of the readers."""
        changed = {name: value for name, value in self.changed.items() if name != "data_format"}
        # --id alone keeps no names, as trainings need none.
        return changed | {"format": self.data_format, "keep_names": bool(self.keep_names)}
