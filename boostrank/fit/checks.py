"""Checks of training options that need no data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from boostrank.core.errors import ParameterError
from boostrank.core.params import find_param, resolve_params
from boostrank.engines import get_backend, of_engine
from boostrank.fit.params import default_objective
from boostrank.fit.plan import PLAIN
from boostrank.fit.presets import GOOD
from boostrank.kernels.noise import SEED
from boostrank.kernels.objective.options import OPTIONS
from boostrank.objective.mixture import accepted_params
from boostrank.options import FitOptions, TrainOptions


def check_sides(options: FitOptions) -> None:
    """Check that `settings` are parameters of the objective, and `params` of the engine.

    Raises:
        ParameterError: a parameter under the wrong option; the message gives the right one.
    """
    own = options.params
    if "objective" in own:
        raise ParameterError("the objective is chosen by --objective, not by --param")
    if options.objective is None or isinstance(options.objective, str):
        name = options.objective or default_objective(options.backend)
        if of_engine(name):
            for setting in options.settings:
                raise ParameterError(f"{name} takes its parameters from the engine: use --param for {setting!r}")
            return
        try:
            takes = accepted_params(name)
        except ParameterError:
            return  # `boostrank.train` reports the invalid name
    else:
        name, takes = options.objective.name, (*options.objective.params, *OPTIONS)
    for key, value in own.items():
        param = find_param(key, takes)
        if param is not None and param is not SEED:
            words = f"--objective '{name}({key}={value})'" if key == "metric" else f"--set {key}={value}"
            raise ParameterError(f"{key!r} is a parameter of objective {name!r}: use {words}")
    if "gain" in own:
        raise ParameterError(f"the gain is not a parameter of the engine: use --gain {own['gain']}")
    for key in options.settings:
        if key == "metric" and find_param(key, takes):
            raise ParameterError(
                f"--set metric is no parameter of training: --metric is reported, {name}(metric=...) trained on"
            )
        if find_param(key, [SEED]):
            raise ParameterError("the objective and the trees share one seed: use --seed")
    resolve_params(takes, options.settings, owner=f"objective {name!r}")


def settled_quality(options: TrainOptions, cluster: bool, tell: Callable[[str], None]) -> TrainOptions:
    """Set the quality: "good" by default, or "plain" if folds are not available.

    Raises:
        ParameterError: the requested quality is not available.
    """
    reason = ""
    if cluster:
        reason = "workers of a cluster train a single model with the engine's defaults"
    elif not get_backend(options.backend).grows_trees:
        reason = f"{options.backend} grows no trees"
    if reason and options.quality not in (None, PLAIN):
        raise ParameterError(f"--quality {options.quality} is not available: {reason}. Use --quality plain")
    quality = options.quality or (PLAIN if reason else GOOD)
    if reason and options.quality is None:
        tell(f"quality plain: {reason}")
    if options.init_model and quality == GOOD:
        default = "the default" if options.quality is None else "--quality good"
        raise ParameterError(
            f"--init-model continues a single training, but {default} trains several models: add --quality quick or "
            "--quality plain"
        )
    return replace(options, quality=quality)
