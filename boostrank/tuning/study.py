"""Study that stores a search: an Optuna journal, in JSON lines."""

from __future__ import annotations

import os
from typing import Any

from boostrank.core.errors import InputError


def open_study(optuna: Any, path: str | os.PathLike[str] | None, identity: dict[str, Any]) -> Any:
    """Create or load a study. Trials left running by a killed process are marked as failed.

    Raises:
        InputError: the file holds another search, or is not a study.
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
            f"{os.fspath(path or '')}: this file holds another search, which differs in {', '.join(differ)}. Choose "
            "another file, or remove it"
        )
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def finished(optuna: Any, study: Any) -> list[Any]:
    """Return the finished trials in order, without those interrupted by a kill."""
    state = optuna.trial.TrialState
    every = study.get_trials(deepcopy=False, states=(state.COMPLETE, state.PRUNED, state.FAIL))
    return [t for t in every if t.state != state.FAIL or "why" in t.user_attrs]


def leader_of(study: Any) -> Any:
    """Return the best trial that beats the start; None if there is none."""
    found = [t for t in study.get_trials(deepcopy=False) if t.value is not None and "per_query" in t.user_attrs]
    return max(found, key=lambda t: (t.value, -t.number), default=None)
