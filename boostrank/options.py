"""The options for training, reading and measuring, each declared once as a struct field.

A declaration has the type, default, bounds, help text, group and conflicts of an option. The flags,
`--help`, the keys of `--config`, value checks, the signatures of Python functions and the
documentation are generated from it. To add an option, add a field to the class of its group, and
the code that uses the value.

Do not import anything heavy here, because `boostrank COMMAND --help` needs this module.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import inspect
import io
import math
import numbers
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

from boostrank.core.errors import ParameterError, did_you_mean
from boostrank.core.text import parse_size, typed_value

F = TypeVar("F", bound=Callable[..., Any])

LARGEST_MAX_FEATURE = 2**31 - 2


@dataclass(frozen=True, kw_only=True)
class Option:
    """A declared option."""

    help: str  # sentences for users
    name: str = ""
    kind: str = ""  # type without `None`: "int", "bool", "tuple[str, ...]"
    default: Any = None
    group: str = ""  # heading in `--help`
    choices: tuple[str, ...] = ()
    ge: float | None = None  # bounds of a number, inclusive except for `gt`
    gt: float | None = None
    le: float | None = None
    flag: str | None = (
        ""  # name on the command line; empty: made from the field's name; None: for Python only
    )
    metavar: str = ""  # placeholder for the value in `--help`; empty: by the type, or "NAME"
    shown: str = ""  # description of the default, if it is not a constant
    undecided: bool = False  # whether the command line has no default, but Python has one
    parse: tuple[str, Callable[[str], Any]] | None = (
        None  # placeholder, and converter of text, which raises ValueError
    )
    # "read", "data", "rankers" (a file or pattern), "folder", "objective" (name or Python file) and
    # "write", which are checked before the command runs, "output", which the command checks,
    # "stream" (a file or standard output), "either" (a file that is read, or another word).
    file: str = ""
    positional: bool = False
    required: bool = False  # by the command line: there is no default, and the type has no `None`
    common: bool = False  # listed by the short `--help`
    params: tuple[str, ...] = ()  # names in `params` of `boostrank.train`, LightGBM's own first
    conflicts: tuple[str, ...] = ()  # options that must not be given together with this one
    needs: str = ""  # option without which this one has no effect
    alone: bool = False  # refused for training on a cluster

    @property
    def several(self) -> bool:
        """Whether the flag may be repeated."""
        return self.kind.startswith(("tuple", "Mapping"))

    @property
    def spelled(self) -> str:
        """The command-line flag, in the singular if it may be repeated, or the name of an option
        without one.
        """
        flag = self.name.removesuffix("s") if self.several else self.name
        return self.name if self.flag is None else self.flag or "--" + flag.replace("_", "-")

    @property
    def range(self) -> str:
        """A description of the allowed values, such as "at least 1", "0 to 1" or "stop, keep,
        missing".
        """
        if self.ge is not None and self.le is not None:
            return f"{self.ge:g} to {self.le:g}"
        limits = (("at least", self.ge), ("above", self.gt), ("at most", self.le))
        bounds = [f"{relation} {bound:g}" for relation, bound in limits if bound is not None]
        return ", ".join(self.choices or bounds) or "any number"

    def is_default(self, value: Any) -> bool:
        """Whether a value is the default. An array never is."""
        plain = isinstance(value, str | int | float | tuple | Mapping)
        return value is self.default or (plain and bool(value == self.default))

    def check(self, value: Any) -> None:
        """Check a value against the choices, the number type and the bounds."""
        if value is None or self.is_default(value):
            return
        if self.choices and isinstance(value, str) and value not in self.choices:
            raise ParameterError(
                f"{self.name}={value!r} is not known.{did_you_mean(value, self.choices)}"
            )
        # Check the type, and the bounds of numbers.
        if self.kind.startswith("tuple") and not isinstance(value, Iterable):
            raise ParameterError(f"{self.name}={value!r} must be a list")
        if self.kind == "str" and not isinstance(value, str | os.PathLike):
            raise ParameterError(f"{self.name}={value!r} must be text")
        if self.kind not in ("int", "float"):
            return
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        try:
            number = float(value) if is_number else math.nan
        except OverflowError:  # an integer beyond float64
            number = math.inf
        is_finite = math.isfinite(number)
        if not is_number or (self.kind == "int" and is_finite and number % 1):
            noun = "a whole number" if self.kind == "int" else "a number"
            raise ParameterError(f"{self.name}={value!r} is not {noun}; allowed: {self.range}")
        is_low = self.ge is not None and number < self.ge
        is_low = is_low or (self.gt is not None and number <= self.gt)
        if not is_finite or is_low or (self.le is not None and number > self.le):
            raise ParameterError(f"{self.name}={value!r} is out of range; allowed: {self.range}")


def option(help: str, default: Any = None, **declared: Any) -> Any:
    """Declare an option as a field of a subclass of `Options`.

    Args:
        help: help text for users, in full sentences.
        default: value if the option is not given. If left out, it is False for a switch and () for
            a tuple.
        declared: other fields of `Option`, with choices, params and conflicts as words in one
            string.
    """
    for name in ("choices", "params", "conflicts"):
        if isinstance(declared.get(name), str):
            declared[name] = tuple(declared[name].split())
    metadata = {"option": Option(help=help, **declared)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def argument(metavar: str, **declared: Any) -> Any:
    """Declare a positional argument like `option`. It is optional if `metavar` is in brackets."""
    required = not metavar.startswith("[")
    return option("", positional=True, flag=None, metavar=metavar, required=required, **declared)


_DECLARED: dict[type[Any], Mapping[str, Option]] = {}


def declared(struct: type[Any]) -> Mapping[str, Option]:
    """Return a struct's options by name, with the options of its bases first and each class in
    declaration order.
    """
    if struct in _DECLARED:
        return _DECLARED[struct]
    last, *bases = struct.__mro__
    fields = {field.name: field for field in dataclasses.fields(struct)}
    options: dict[str, Option] = {}
    for base in (*bases, last):
        for name in inspect.get_annotations(base):
            field = fields.get(name)
            if field is None or "option" not in field.metadata:
                continue
            option, kind = field.metadata["option"], str(field.type)
            default = {} if field.default is dataclasses.MISSING else field.default
            has_none = kind == "Any" or kind.endswith("None")
            options[name] = dataclasses.replace(
                option,
                name=name,
                kind=option.kind or kind.removesuffix(" | None"),
                default=default,
                group=option.group or vars(base)["GROUP"],
                required=option.required or (default is None and not has_none),
            )
    return _DECLARED.setdefault(struct, options)


def contradictions(
    options: Mapping[str, Option], names: Collection[str], spell: Callable[[Option], str]
) -> Iterator[str]:
    """Yield messages about options that conflict or that lack an option they need.

    Args:
        options: options by name.
        names: names of the options that are set.
        spell: function that returns an option's name in messages.
    """
    for option in (options[name] for name in options if name in names):
        for other in option.conflicts:
            if other in names:
                yield f"{spell(option)} and {spell(options[other])} cannot be used together"
        if option.needs in options and option.needs not in names:
            yield f"{spell(option)} is for {spell(options[option.needs])}, which is not given"


def takes_options(options: Iterable[Option], *, alone: bool = True) -> Callable[[F], F]:
    """Return a decorator that shows declared options instead of `**options` in a signature. `alone`
    refuses others.
    """
    kind = inspect.Parameter.KEYWORD_ONLY
    keywords = [inspect.Parameter(option.name, kind, default=option.default) for option in options]

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *parameters, var_keyword = signature.parameters.values()  # **options comes last
        parameters += [keyword for keyword in keywords if keyword.name not in signature.parameters]
        names = {parameter.name for parameter in parameters}

        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            for name in options if alone else ():
                if name not in names:
                    hint = did_you_mean(name, names, list_all=False)
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument {name!r}.{hint}"
                    )
            return function(*args, **options)

        parameters += [] if alone else [var_keyword]
        vars(checked)["__signature__"] = signature.replace(parameters=parameters)
        return cast(F, checked)

    return decorate


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options:
    """Base class for option structs. A subclass is a frozen dataclass that checks values and
    conflicts.

    `group` is the heading in `--help` for the options that the class declares, by default that of
    its first base.
    """

    GROUP: ClassVar[str] = "Options"
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, *, group: str = "") -> None:
        cls.GROUP = group or cls.GROUP
        for name, kind in inspect.get_annotations(cls).items():
            field: Any = vars(cls).get(name)
            has_default = getattr(field, "default", ()) is not None
            if not has_default and kind == "bool":
                field.default = False
            elif not has_default and kind.startswith("tuple"):
                field.default = ()
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        """Check the values, and replace None by the default unless it has a meaning of its own."""
        options = declared(type(self))
        for name, option in options.items():
            value = getattr(self, name)
            if value is None and not self.__dataclass_fields__[name].type.endswith("None"):
                value = option.default
            option.check(value)
            if option.kind == "int" and value is not None:
                value = int(value)
            object.__setattr__(self, name, value)
        for message in contradictions(options, self.changed, lambda option: option.name):
            raise ParameterError(message)

    @property
    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return {
            name: getattr(self, name)
            for name, option in declared(type(self)).items()
            if not option.is_default(getattr(self, name))
        }


# Parsers for text from the command line. Each raises ValueError, whose message becomes the error.


def parse_assignment(text: str) -> tuple[str, int | float | bool | str]:
    """Parse `name=value`. The value becomes a number, true or false where possible, and stays text
    otherwise.
    """
    name, equals, value = text.partition("=")
    if not (equals and name.strip() and value.strip()):
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name.strip(), typed_value(value.strip())


def parse_workers(text: str) -> str:
    """Refuse blank text, such as the value of an unset variable."""
    if not text.strip():
        raise ValueError("the value is blank; name what starts the workers, or leave out --cluster")
    return text


def parse_ranks(text: str) -> tuple[int, ...]:
    """Parse ranks separated by commas."""
    try:
        ranks = tuple(int(number) for number in text.split(","))
    except ValueError:
        ranks = ()
    if not ranks or min(ranks) < 1:
        raise ValueError(f"{text!r} is not a list such as 1,3,5,10")
    return ranks


def parse_seconds(text: str) -> float:
    """Parse durations such as `90s`, `30m` or `2h`. A number without a unit is in seconds."""
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:].lower(), 0.0)
    try:
        seconds = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < math.inf:
        raise ValueError(f"{text!r} is not a duration such as 90s, 30m or 2h")
    return seconds


def listed_names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas, as in a CSV line such as `url,"price, EUR"`."""
    try:
        names = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"{text!r}: {error}; write names with commas in double quotes") from None
    if not names or not all(names):
        raise ValueError(f"{text!r} has an empty name; write names with commas in double quotes")
    return tuple(names)


def parse_fill(fill: Any) -> dict[str | None, Any]:
    """Return what replaces missing values by feature, where None stands for all other features.

    Args:
        fill: a number, "mean" or "median" for all features; a mapping from names to these; or text
            with them, such as "median,price=0".
    """
    if fill is None:
        return {}
    if not isinstance(fill, str):
        return dict(fill) if isinstance(fill, Mapping) else {None: fill}
    try:
        rules = [rule.rpartition("=") for rule in listed_names(fill)]
    except ValueError as error:
        raise ParameterError(f"fill={error}") from None
    names = {name for name, _, _ in rules}
    if not all(mark for _, mark, _ in rules[1:]) or len(names) < len(rules):
        remedy = (
            "write the value of all other features once and first, each feature once, and"
            " decimals with a point"
        )
        raise ParameterError(f"fill={fill!r}: {remedy}, such as 'median,price=0.5'")
    return {name if mark else None: value for name, mark, value in rules}


def typed_names(*names: str) -> str:
    """Quote names for a shell, so that `listed_names` parses them again."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return shlex.quote(line.getvalue())


def parse_label_map(label_map: Mapping[float, float] | str) -> dict[float, float]:
    """Return a mapping from old to new labels, given a mapping or text such as "-1=0,2=1"."""
    try:
        if isinstance(label_map, str):
            pairs: Any = [part.split("=") for part in label_map.split(",")]
        else:
            pairs = label_map.items()
        numbers = [(float(old), float(new)) for old, new in pairs]
    except (TypeError, ValueError, AttributeError):
        raise ParameterError(
            f"label_map={label_map!r}: pass old=new pairs, such as --label-map=-1=0,2=1"
        ) from None
    mapped = dict(numbers)
    if not all(map(math.isfinite, (*mapped, *mapped.values()))) or len(mapped) < len(numbers):
        raise ParameterError(
            f"label_map={label_map!r}: labels must be finite numbers, each of which is mapped once"
        )
    return mapped


def as_list(values: Any) -> list[Any]:
    """Return the elements of a list or tuple, none for None, or a single value as a list."""
    if values is None:
        return []
    return list(values) if isinstance(values, list | tuple) else [values]


CONVENTIONS = ("default", "lightgbm", "xgboost", "catboost", "sklearn", "trec", "letor", "mslr")
"""The names in `boostrank.core.conventions.PRESETS`."""
BACKENDS = ("lightgbm", "xgboost", "linear")
"""The names in `boostrank.engines.ENGINES`."""
DEFAULT_EVAL_AT = (1, 3, 5, 10)
DEFAULT_ROUNDS = 100
NO_CACHE = "none"
PLAIN, QUICK, GOOD = "plain", "quick", "good"
"""The presets for a single training with the engine's defaults, one with suited trees, and an
average over folds.
"""


class ThreadOptions(Options):
    """Options of commands that run on several threads."""

    threads: int | None = option(
        "Number of threads. The result does not depend on it.",
        ge=1,
        shown="all allowed cores",
        params="num_threads num_thread nthread nthreads n_jobs",
    )


class JsonOptions(Options, group="Results"):
    """Options of commands whose result can be printed as JSON."""

    as_json: bool = option("Print the result as JSON.", flag="--json")


class ConfigOptions(Options, group="Data and output"):
    """Options of commands that take values from a configuration file."""

    config: str | None = option(
        "TOML file with long option names as keys and the tables [set] and [param]. Flags"
        " override it.",
        file="read",
    )


class ConventionOptions(Options, group="Metrics and stopping"):
    """Options that settle what metrics leave open; see `Conventions`."""

    gain: Any = option(
        "Gain of a label: exponential, linear, or a table such as 0,1,3,7. Also an expression over"
        " columns, computed for each row: '0.7*label + 0.3*log1p(margin)'.",
        metavar="RULE",
        shown="exponential; linear for clicks",
        params="gain label_gain",
    )
    conventions: Any = option(
        "Treat gains, ties and queries without relevant documents as this program does; default:"
        " by boostrank's rules.",
        choices=CONVENTIONS,
    )


class ObjectiveOptions(Options, group="Objective"):
    """Options that select an objective and set its parameters."""

    objective: Any = option(
        "Training objective, listed by `boostrank objectives`. Also a mixture, 'mix(shf-sdcg,"
        " regression)', an objective of the engine, lightgbm:lambdarank, or your own file, my.py.",
        shown="auto; smooth-ndcg for --backend linear",
        common=True,
        file="objective",
        params="objective objective_type app application loss",
    )
    settings: Mapping[str, Any] = option(
        "Parameter of the objective, such as sigma=0.5, or a schedule for it:"
        " 'sigma=geometric(64,0.0156)'.",
        {},
        flag="--set",
        parse=("NAME=VALUE", parse_assignment),
    )


class TreeOptions(Options, group="Trees"):
    """Options of the engine, its rounds and its trees."""

    backend: str = option(
        "Tree engine, or linear for a linear model, which takes one optimiser step per round.",
        "lightgbm",
        metavar="|".join(BACKENDS),
    )
    rounds: int | None = option(
        "Number of boosting rounds.",
        ge=1,
        le=2**31 - 1,
        shown=f"{DEFAULT_ROUNDS} in plain trainings",
        common=True,
        params=(
            "num_iterations num_iteration n_iter num_tree num_trees num_round num_rounds nrounds"
            " num_boost_round n_estimators max_iter iterations"
        ),
    )
    learning_rate: float | None = option(
        "Factor by which each tree is shrunk.",
        gt=0,
        shown="0.1 in plain trainings",
        params="learning_rate",
    )
    num_leaves: int | None = option(
        "Maximum number of leaves per tree.",
        ge=2,
        shown="31 in plain trainings",
        params="num_leaves",
    )
    params: Mapping[str, Any] = option(
        "Any other parameter of the engine, such as min_data_in_leaf=50.",
        {},
        parse=("NAME=VALUE", parse_assignment),
    )
    seed: int | None = option(
        "Random seed.",
        ge=0,
        shown="the engine's",
        common=True,
        params="seed random_seed random_state",
    )


class StoppingOptions(Options, group="Metrics and stopping"):
    """Options that select metrics, early stopping and the seed of a training."""

    metrics: tuple[str, ...] = option(
        "Metric to report each round, such as ndcg, map@10, or a function in a file, my.py:name.",
        shown="ndcg",
        common=True,
        params="metric metrics metric_types eval_metric",
    )
    eval_at: Any = option(
        "Cut-offs for metrics that are named without one.",
        parse=("K,K,...", parse_ranks),
        shown="1,3,5,10",
        params="eval_at ndcg_eval_at ndcg_at map_eval_at map_at",
    )
    early_stopping: int | None = option(
        "Stop when the first metric, at its largest cut-off, has not improved for N rounds on the"
        " first --valid file or the held-out fold, and keep the best round. With a schedule, wait"
        " until it has settled.",
        ge=1,
        common=True,
        params="early_stopping_round early_stopping_rounds early_stopping n_iter_no_change",
    )


class FitOptions(ObjectiveOptions, TreeOptions, ThreadOptions, StoppingOptions, ConventionOptions):
    """The options for all commands that train, which are `train`, `tune` and `study noise`."""

    def flat(self) -> dict[str, Any]:
        """Return all parameters in one dictionary for `boostrank.train`, without the number of
        rounds.
        """
        params, options = dict(self.params), dict(self.settings)
        if "metric" in options:
            raise ParameterError(
                "--set metric: use --metric to report a metric, lambdarank(metric=...) to"
                " optimise it"
            )
        # An option counts by its own flag, or as a parameter under one of its aliases.
        aliases = {}
        for name, option in declared(type(self)).items():
            if name in params and not option.params:
                raise ParameterError(
                    f"{name!r} is not a parameter of the engine; pass {option.spelled} separately"
                )
            if not option.params or name == "rounds":
                continue
            main, value = option.params[0], getattr(self, name)
            aliases[main] = option.params
            if value is not None and value != ():
                options[main] = list(value) if name == "metrics" else value
        for name, value in options.items():
            for alias in aliases.get(name, (name,)):
                if alias in params:
                    raise ParameterError(
                        f"{alias} is given twice, by --param and by its own option"
                    )
            params[name] = value
        return params


class WithinQueryOptions(Options, group="Start and features"):
    """Options that add features relative to the other documents of a query."""

    within_query: Any = option(
        "Add per-query features, which the saved model computes: rank, zscore, minmax,"
        " opensearch_zscore, best or mean (differences from the query's maximum or mean).",
        metavar="KIND,...",
        conflicts="clicks",
    )
    of: Any = option(
        "Features to which --within-query applies, by name or number.",
        metavar="F,...",
        shown="all numeric features",
        needs="within_query",
    )


class StartOptions(Options, group="Start and features"):
    """Options of the scores from which trees start."""

    start: str | None = option(
        "Scores from which the trees start. linear: those of a ridge regression, which becomes part"
        " of the model. auto: linear for the objective auto, otherwise none.",
        "auto",
        choices="auto linear none",
    )


class SingleOptions(FitOptions, WithinQueryOptions, StartOptions):
    """The options for a single new training."""


class FillOptions(Options, group="Start and features"):
    """Options that replace missing values, in training and in scoring."""

    fill: Any = option(
        "Replace missing values, in scoring too, by a number or by the training data's mean or"
        " median, for all numeric features or by name. For programs without missing values.",
        metavar="NUMBER|mean|median|FEATURE=...,...",
        alone=True,
        conflicts="within_query",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_fill(self.fill)  # raises an error

    @property
    def fill_rules(self) -> dict[str | None, Any]:
        """What replaces missing values by feature, where None stands for all other features."""
        return parse_fill(self.fill)


class TrainOptions(SingleOptions, FillOptions, group="Models"):
    """The training options that `boostrank.train` and `boostrank train` share.

    `params` is the given dictionary, with all parameters in Python, or those of --param on the
    command line.
    """

    init_model: Any = option(
        "Continue training this model.", file="read", group=StartOptions.GROUP, conflicts="folds"
    )
    quality: str | None = option(
        "Defaults of all other options. good: average four models, each trained on three of four"
        " folds of the queries. quick: train one model with trees sized to the data, stop on"
        " --valid, then learn the leaves from all queries. plain: train one model with the engine's"
        " defaults.",
        "plain",
        choices="plain quick good",
        undecided=True,
        shown="good",
        common=True,
    )
    folds: int | None = option(
        "Train one model per fold of queries, stop each on its held-out fold, and average them.",
        metavar="K",
        ge=2,
        common=True,
    )
    max_trees: int | None = option(
        "Maximum number of trees in the saved model, including the linear start (one per feature)."
        " Later rounds are removed, equally in each fold.",
        ge=1,
    )
    checkpoint: Any = option(
        "Checkpoint file, removed once the model is written.",
        file="output",
        shown="MODEL.checkpoint",
        group="Checkpoints",
    )
    callbacks: Any = option("Callbacks, called each round of each fold.", (), flag=None)
    feval: Any = option("Metrics as functions, as in `lgb.train`.", (), flag=None, alone=True)

    def __post_init__(self) -> None:
        for name in ("callbacks", "feval"):
            object.__setattr__(self, name, tuple(as_list(getattr(self, name))))
        super().__post_init__()

    @property
    def single(self) -> TrainOptions:
        """The same options, with defaults for all options that `SingleOptions` lacks."""
        return TrainOptions(**{name: getattr(self, name) for name in declared(SingleOptions)})

    @property
    def on_folds(self) -> bool:
        """Whether trainings on folds are requested."""
        return bool(self.folds) or self.quality == GOOD

    def within_limit(self, trees: int | None) -> TrainOptions:
        """Return the options with this limit, unless they have one."""
        if trees is None or self.max_trees is not None:
            return self
        return dataclasses.replace(self, max_trees=trees)


KEYWORDS = {
    name: option
    for name, option in declared(TrainOptions).items()
    if not option.params and name not in ("params", "settings")
}
"""The options that are keywords of `boostrank.train`. All others are entries of its `params`."""


class MemoryOptions(Options, group="Memory and machines"):
    """Options of the memory that a training may use."""

    memory_limit: int | None = option(
        "Memory limit of the training, such as 800MB or 2GB. It decides where to hold features; if"
        " nothing fits, training is refused.",
        parse=("SIZE", parse_size),
        shown="free memory of the machine or the cgroup",
    )


class ClickOptions(Options, group="Clicks"):
    """Options that read clicks in place of labels."""

    clicks: bool = option(
        "Use clicks in place of labels: clicks divided by exposure, from FILE.clicks "
        "(`row,position,impressions,clicks`). Documents that were never shown are left out."
    )


class PropensityOptions(ClickOptions):
    """Options that read clicks, and the propensities that correct them."""

    propensities: str | None = option(
        "How likely each position is to be examined, as `boostrank data propensities` writes it.",
        file="read",
        shown="estimated from documents shown at several positions",
        needs="clicks",
    )


class TargetOptions(Options, group="Data and output"):
    """Options that name the program which will serve the model."""

    target: str | None = option(
        "Check that this target of `boostrank export --to` can hold the model.",
        flag="--for",
        metavar="TARGET",
    )


class TrainFilesOptions(PropensityOptions, MemoryOptions, TargetOptions, group="Data and output"):
    """The options that only training from files has, in `boostrank.train_files` and `boostrank
    train`.
    """

    train: tuple[str, ...] = argument("TRAIN...", file="data")
    model: str = option("Model file to write.", file="output")
    valid: tuple[str, ...] = option(
        "Validation file, or several as one set ('valid/*.gz'). With folds, each of its queries is"
        " held out from one model and used to train the others.",
        file="data",
        common=True,
    )
    log: str | None = option(
        "Append the metrics of each round to this file as JSON lines.", file="output"
    )
    click_prior: float | None = option(
        "Exposure without clicks to add to each document, which smooths rare ones.",
        ge=0,
        shown="1",
        group="Clicks",
        needs="clicks",
    )
    checkpoint_every: int | None = option(
        "Write a checkpoint every N rounds, and when Ctrl-C or SIGTERM stops the training.",
        ge=1,
        group="Checkpoints",
    )
    resume: bool = option(
        "Resume from the checkpoint if it exists. The model has the same bytes as without a stop.",
        group="Checkpoints",
    )
    resume_or_restart: bool = option(
        "Resume as with --resume, but start over and say why if data, options or versions differ or"
        " the checkpoint is damaged. For jobs that cron repeats.",
        group="Checkpoints",
    )
    route: str = option(
        "Where to hold features: as floats in memory, as bins in memory, or as bins on disk"
        " (external, XGBoost only). auto: the first that fits, with at most half of the free memory"
        " for floats.",
        "auto",
        choices="auto memory bins external",
        group=MemoryOptions.GROUP,
    )
    cache: str | None = option(
        "Directory that keeps the bins of streamed data for the next run, or none. It implies"
        " streaming.",
        metavar="DIR|none",
        file="folder",
        shown=".boostrank-cache next to the data",
        group=MemoryOptions.GROUP,
    )
    cluster: str | None = option(
        "Train on several workers, each of which reads some of the files: local:2 (processes on"
        " this machine), env (ranks started by torchrun, MPI, Slurm or Kubernetes),"
        " dask:tcp://HOST:PORT, spark:2, ray:2.",
        parse=("WORKERS", parse_workers),
        group=MemoryOptions.GROUP,
        conflicts=(
            "route cache memory_limit log checkpoint resume resume_or_restart clicks feature_names"
        ),
    )
    worker_timeout: float = option(
        "Stop with exit status 4 if a worker does not answer for this long.",
        60.0,
        parse=("DURATION", parse_seconds),
        shown="60s",
        group=MemoryOptions.GROUP,
        needs="cluster",
    )

    @property
    def valid_names(self) -> list[str]:
        """The names of the validation files without folders and extensions, or valid_0, valid_1,
        ... if names clash.
        """
        names = []
        for path in map(Path, self.valid):
            stem = path.name.split(".")[0].strip("*?-_")
            names.append(stem or path.parent.name or str(path))
        distinct = len(set(names)) == len(names) and "training" not in names
        return names if distinct else [f"valid_{i}" for i in range(len(names))]


class OutputOptions(ConfigOptions, JsonOptions):
    """The options for what a command prints."""


class MeasureOptions(ConventionOptions, ThreadOptions, JsonOptions, group="Measures"):
    """The options for commands that measure rankers."""


class StudyOptions(MeasureOptions):
    """The options for `compare` and `report`."""

    segments: str | None = option(
        "File with lines `qid,segment`. Each segment is also shown separately.", file="read"
    )
    noise: str | None = option(
        "Output of `boostrank study noise --json`, used to mark differences that chance explains.",
        file="read",
    )
    seed: int = option("Random seed of shuffles and samples.", 0, ge=0)


class TwoRankersOptions(MeasureOptions):
    """The options for commands that compare two rankers."""

    old: str = argument("OLD", file="rankers")
    new: str = argument("NEW", file="rankers")
    data: tuple[str, ...] = argument("DATA...", file="data")
    metrics: tuple[str, ...] = option(
        "Metric, such as ndcg@10, map, or a function in a file, my.py:name. The first one"
        " determines regressions.",
        shown="ndcg@10; dcg@10 for clicks",
    )
    machine: str | None = option(
        "A machine's grades: a column of DATA, or a file of judgements. The label is missing where"
        " people did not judge. Compare by people, by the machine and by both.",
        metavar="COLUMN|FILE",
        file="either",
        conflicts="clicks",
    )


class CompareOptions(PropensityOptions, StudyOptions, TwoRankersOptions, group="Measures"):
    """The options for `compare`."""

    top: int = option(
        "Number of top ranks in which changes are counted and shown.", 10, metavar="K", ge=1
    )
    conditions: tuple[str, ...] = option(
        "Exit with status 1 if this condition holds: 'ndcg@10 < -0.002 at p<0.05'.",
        flag="--fail-if",
        metavar="CONDITION",
        group="Results",
    )
    output: str | None = option("HTML page to write.", file="output", group="Results")


class ModelOptions(Options):
    """Arguments of commands that apply a model to data."""

    model: str = argument("MODEL", file="read")
    data: tuple[str, ...] = argument("DATA...", file="data")


class TrainingsOptions(ConfigOptions, JsonOptions):
    """The options for commands that train several times."""

    train: tuple[str, ...] = argument("TRAIN...", file="data")


class Limits(ThreadOptions):
    """Limits of `boostrank.serving.make_app`, in bytes and seconds. `threads` is the number of
    requests that are scored at the same time; None for every core.
    """

    max_body: int = option(
        "Largest body of a request.", 8_000_000, parse=("SIZE", parse_size), shown="8MB"
    )
    timeout: float = option(
        "Longest time to receive a body, and to score it.",
        10.0,
        parse=("DURATION", parse_seconds),
        shown="10s",
    )
    waiting: int = option(
        "Number of requests that are scored or wait for a thread. Others are refused.",
        256,
        flag=None,
    )
    reload: float = option(
        "Time between two checks for a new model file.",
        5.0,
        parse=("DURATION", parse_seconds),
        shown="5s",
    )


class ReadOptions(Options, group="Reading"):
    """The options for reading data files."""

    missing_tokens: Any = option(
        "Word for a missing value, exactly as in the file, such as NULL or NA.",
        (),
        kind="tuple[str, ...]",
        metavar="WORD",
    )
    zero_based: Any = option(
        "Whether feature numbers start at 0. auto: if number 0 occurs, or as in the training data.",
        "auto",
        choices="auto true false",
    )
    inf: str = option(
        "Stop at values that are infinite or exceed float32, keep them, or read them as missing.",
        "stop",
        choices="stop keep missing",
    )
    repeated: str = option(
        "Stop at a feature given twice in a row of libsvm text, or keep its first or last value.",
        "stop",
        choices="stop first last",
    )
    on_bad_line: str = option(
        "Stop at the first row that cannot be read, or skip such rows and count them.",
        "stop",
        choices="stop skip",
    )
    max_bad_share: float = option(
        "Maximum fraction of rows that may be skipped.", 0.001, ge=0, le=1
    )
    regroup: bool = option("Group the scattered rows of each query, in their order.")
    label_map: Any = option(
        "Labels to replace, such as -1=0,2=1. Other labels are kept.", metavar="OLD=NEW,..."
    )
    strict: bool = option("Turn warnings about the data into errors.")
    max_feature: int = option(
        "Largest feature number to accept.", 2**24, ge=1, le=LARGEST_MAX_FEATURE
    )
    n_features: int | None = option(
        "Number of features; larger numbers are refused. None: the largest number in the files.",
        ge=1,
        flag=None,
    )
    layout: str = option(
        "Storage of features, with the same values. auto: dense if at least half of the cells are"
        " present.",
        "auto",
        choices="auto dense csr",
        flag=None,
    )
    label: str | None = option(
        "Label column of a table (CSV, TSV, Parquet, Arrow).",
        metavar="COLUMN",
        shown="label, relevance, grade or rating",
    )
    qid: str | None = option(
        "Query id column of a table.", metavar="COLUMN", shown="qid, query_id or query"
    )
    weight: str | None = option(
        "Weight column of a table. Weights that differ within a query apply to documents.",
        metavar="COLUMN",
    )
    id: str | None = option(
        "Document name column of a table, which is not a feature.",
        metavar="COLUMN",
        shown="doc_id, docno, product_id or sku",
    )
    drop: Any = option(
        "Columns of a table that are not features: brand,url. Put names with commas in double"
        " quotes.",
        kind="tuple[str, ...]",
        parse=("COLUMN,...", listed_names),
    )
    categorical: Any = option(
        "Text columns of a table to read as categories. Parquet and Arrow declare their own.",
        kind="tuple[str, ...]",
        parse=("COLUMN,...", listed_names),
    )
    gain: Any = option(
        "Expression over columns that replaces the labels: 0.7*label + 0.3*log1p(margin). It may"
        " use dropped columns.",
        flag=None,
    )
    feature_names: Any = option(
        "File with feature names for libsvm text: one name per line, or lines `1: name`.",
        file="read",
    )
    keep_names: bool | None = option(
        "Keep document names (the column `id`, comments of libsvm text) and the text of queries"
        " (lines `# qid:1: words` of libsvm text). None: if `id` is given.",
        flag=None,
    )

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if not isinstance(self.zero_based, str):
            zero_based = "auto" if self.zero_based is None else str(bool(self.zero_based)).lower()
            put("zero_based", zero_based)
        super().__post_init__()
        # Check what depends on several options, and convert text.
        if self.n_features is not None and self.n_features > self.max_feature + 1:
            raise ParameterError(
                f"n_features={self.n_features!r} is out of range; allowed: 1 to max_feature + 1"
            )
        tokens = self.missing_tokens
        tokens = (tokens,) if isinstance(tokens, str) else tuple(tokens)
        for token in tokens:
            if not token or any(c.isspace() or c in "#:" or not c.isprintable() for c in token):
                raise ParameterError(
                    f"missing token {token!r} must be a word without blanks, ':' or '#'"
                )
        put("missing_tokens", tokens)
        for name in ("drop", "categorical"):
            columns = getattr(self, name)
            try:
                columns = listed_names(columns) if isinstance(columns, str) else columns or ()
            except ValueError as error:
                raise ParameterError(f"{name}={error}") from None
            put(name, tuple(map(str, columns)) or None)
        if self.label_map is not None:
            put("label_map", parse_label_map(self.label_map) or None)
        if self.gain is not None:
            from boostrank.core.conventions import expression_of

            expression = expression_of(self.gain)
            if expression is None:
                raise ParameterError(
                    f"gain={self.gain!r} is not an expression over columns; pass it to train or to"
                    " a metric"
                )
            put("gain", expression.text)


class FileOptions(ReadOptions):
    """The options for reading files of any format."""

    data_format: str = option(
        "Data format: libsvm, csv, tsv, parquet or arrow. auto: detect it from the file extension,"
        " otherwise from the content.",
        "auto",
        flag="--format",
    )

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords for the readers, which are the format and all options that differ from their
        defaults.
        """
        changed = {name: value for name, value in self.changed.items() if name != "data_format"}
        # --id alone does not keep names, because trainings do not need them.
        return changed | {"format": self.data_format, "keep_names": bool(self.keep_names)}
