"""What people in the field reported: number, kind, and what the user of each case gets.

A case is a function, entered in the table by `@case(number, kind, gets)`; numbers are those of the reports. It runs
in an empty folder. A kind has as many cases as it has inputs that differ.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from tests.cli.conftest import invoke

Case = Callable[[], None]
CASES: list[tuple[int, str, str, Case]] = []
TRAIN = ("--quality", "plain", "--rounds", 2, "--objective", "lambdarank", "--threads", 1)


def case(number: int, kind: str, gets: str) -> Callable[[Case], Case]:
    """Enter a case in the table."""

    def entered(function: Case) -> Case:
        CASES.append((number, kind, gets, function))
        return function

    return entered


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the table, whose rows stand below."""
    cases = sorted(CASES, key=lambda row: row[0])
    metafunc.parametrize("run", [pytest.param(run, id=f"{number}-{run.__name__}") for number, _, _, run in cases])


def test_reported(run: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run()


def accepted(*command: object) -> Result:
    """Run a command, which must end well."""
    result = invoke(*command)
    assert result.exit_code == 0, result.stderr
    return result


def refused(*command: object, says: tuple[str, ...]) -> None:
    """Run a command, which must refuse its input and say these places, tokens and options."""
    result = invoke(*command)
    assert result.exit_code == 2, result.stderr
    assert [word for word in says if word not in result.stderr] == [], result.stderr


def train(*arguments: object, model: str = "m.txt") -> tuple[object, ...]:
    """The command that trains two rounds."""
    return ("train", *arguments, *TRAIN, "--model", model)


def arrays(queries: int = 6, size: int = 20, features: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels that the first of them decides, and query ids."""
    X = np.random.default_rng(0).random((queries * size, features)).round(3)
    return X, (3 * X[:, 0]).astype(int), np.repeat(np.arange(1, queries + 1), size)


def write_rows(path: str, first: int = 1) -> None:
    """Write the same as libsvm text, whose features count from `first`."""
    rows = (
        f"{label} qid:{query} " + " ".join(f"{j}:{value}" for j, value in enumerate(row, first))
        for row, label, query in zip(*arrays(), strict=True)
    )
    Path(path).write_text("\n".join(rows) + "\n")


# Files that are something else ------------------------------------------------------------------------------------


@case(15, "a file that is something else", "its name, and the command that gets the data")
def pointer_of_lfs() -> None:
    Path("pointer.txt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    refused(*train("pointer.txt"), says=("pointer.txt", "git lfs pull"))


@case(13, "a file that is something else", "its name, and the column to take")
def scores_of_ranklib() -> None:
    write_rows("test.txt")
    Path("scores.txt").write_text("".join(f"{row // 20}\t{row % 20}\t0.5\n" for row in range(120)))
    refused("evaluate", "scores.txt", "test.txt", says=("scores.txt:1", "RankLib", "third column"))


@case(14, "a file that is something else", "its name, and how to save the model")
def dump_of_xgboost() -> None:
    write_rows("test.txt")
    Path("dump.json").write_text('[{"nodeid": 0, "leaf": 0.1}]')
    refused("evaluate", "dump.json", "test.txt", says=("dump.json", "save_model"))


# Values and names, as tools write them ----------------------------------------------------------------------------
