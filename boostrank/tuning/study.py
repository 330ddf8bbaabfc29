"""The study that remembers a search: a journal of Optuna's, lines of JSON."""

from __future__ import annotations

import os
from typing import Any

from boostrank.core.errors import InputError


def open_study(optuna: Any, path: str | os.PathLike[str] | None, identity: dict[str, Any]) -> Any:
    """The study, new or as it was left; trials that a kill left running are over.

    Raises:
        InputError: the file is of another search, or is no study.
    """
    storage = None
    if path is not None:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        try:
            storage = JournalStorage(JournalFileBackend(os.fspath(path)))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{os.fspath(path)}: not a study of Optuna's: {error}") from error
        except OSError as error:
            raise InputError(f"{os.fspath(path)}: {error.strerror}") from error
    study = optuna.create_study(storage=storage, study_name="boostrank", direction="maximize", load_if_exists=True)
    before = study.user_attrs.get("search")
    if before is None:
        study.set_user_attr("search", identity)
    elif before != identity:
        differ = sorted(key for key in {*before, *identity} if before.get(key) != identity.get(key))
        raise InputError(
            f"{os.fspath(path or '')}: another search lies there; different: {', '.join(differ)}. Name "
            "another file, or remove it"
        )
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def finished(optuna: Any, study: Any) -> list[Any]:
    """In order; a trial that a kill left behind is none."""
    state = optuna.trial.TrialState
    every = study.get_trials(deepcopy=False, states=(state.COMPLETE, state.PRUNED, state.FAIL))
    return [t for t in every if t.state != state.FAIL or "why" in t.user_attrs]


def leader_of(study: Any) -> Any:
    """The best trial that is above the start; None without any."""
    found = [t for t in study.get_trials(deepcopy=False) if t.value is not None and "per_query" in t.user_attrs]
    return max(found, key=lambda t: (t.value, -t.number), default=None)
