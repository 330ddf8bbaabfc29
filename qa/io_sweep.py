"""Let every call that writes, syncs, renames, opens or reads fail in turn, and look whether
anything is lost.

    python -m qa.io_sweep [SECONDS] [COMMAND...]

Each command runs with its k-th call failing, for every k, once and for good, with ENOSPC where
files from before are replaced and with EIO where none is there. It must end well, or with 2 or 3
and words that name a file; every file is as it was, or whole and new; no temporary file stays; a
model that was trained lies somewhere or is said to be lost. Then the same command without a fault,
with --resume where a checkpoint is left, must give the bytes of an untouched run. SECONDS ends the
sweep early, which is said.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest import mock

import boostrank
from boostrank.cli import main
from boostrank.core.errors import BoostrankError
from boostrank.core.machine import openmp_environment
from boostrank.fit.checkpoint import _read
from boostrank.model.files import read_model_files
from qa.io_faults import Faults, in_child, in_process

Files = dict[str, bytes]
BEFORE = b"what was there before\n"
CACHE = "cache/"  # whose entries hold times: what they are worth shows in the next run
FAULTS = [(for_good, error) for for_good in (False, True) for error in (errno.ENOSPC, errno.EIO)]


@dataclass(frozen=True)
class Case:
    """A command: a name, its words in a folder `run` beside `data`, and files that must be there
    before.
    """

    name: str
    words: str
    existing: tuple[str, ...] = ()


TRAIN = (
    "train ../data/train.txt --valid ../data/valid.txt --rounds 6 --num-leaves 4 --quality plain"
    " --threads 1"
)
_GBM, _XGB = f"{TRAIN} -m model.txt", f"{TRAIN} --backend xgboost -m model.json"
_SAVED = "../data/model.txt ../data/valid.txt --threads 1"
CASES = [
    Case("split", "data split ../data/valid.txt --parts a=0.5,b=0.5 -o out.txt"),
    Case("shard", "data shard ../data/valid.txt --parts 2 -o out.txt.gz"),
    Case("sample", "data sample ../data/valid.txt --queries 5 -o out.txt"),
    Case("sort", "data sort ../data/large.txt -o out.txt"),
    Case("predict", f"predict {_SAVED} -o scores.txt"),
    Case("export", "export ../data/model.txt --to python -o exported.py"),
    Case("average", "average ../data/model.txt ../data/model.txt -m model.txt"),
    Case("make-data", "data make made --queries 10 --mean-length 4"),
    Case(
        "simulate-clicks", "data simulate-clicks ../data/model.txt ../data/valid.txt -o out.clicks"
    ),
    Case("count-clicks", "data count-clicks ../data/sessions.csv -o out.clicks"),
    Case("propensities", "data propensities ../data/train.txt.clicks -o propensities.json"),
    Case("lightgbm", f"{_GBM} --checkpoint-every 2 --log rounds.jsonl"),
    Case("xgboost", f"{_XGB} --checkpoint-every 2"),
    Case(
        "lightgbm clicks",
        "train ../data/train.txt --clicks --rounds 3 --quality plain --threads 1 -m model.txt",
    ),
    Case("lightgbm resumed", f"{_GBM} --checkpoint-every 2 --resume", ("model.txt.checkpoint",)),
    Case("xgboost resumed", f"{_XGB} --checkpoint-every 2 --resume", ("model.json.checkpoint",)),
    Case("lightgbm streamed", f"{_GBM} --route bins --cache cache"),
    Case("xgboost streamed", f"{_XGB} --route external --cache cache"),
    Case("report", f"report {_SAVED} --documents 20 -o page.html --only queries"),
]


@dataclass
class Sweep:
    """Runs commands in `folder`, which has `data`, `run`, and `temporary` for what is rescued.

    Args:
        folder: empty.
        start: runs work with its output in a file, and gives the exit status.
        every: how many calls apart the faults are.
    """

    folder: Path
    start: Callable[[Callable[[], int], Path], int] = in_child
    every: int = 1

    def __post_init__(self) -> None:
        self.data = self.folder / "data"
        self.run = self.folder / "run"
        self.temporary = self.folder / "temporary"
        for folder in (self.run, self.temporary):
            folder.mkdir()
        self.old: Files = {}

    def prepare(self) -> None:
        """Data, a model, and what trainings leave that could not write their models."""
        log = self.folder / "log"
        small = "make-data ../data --queries 40 --mean-length 8 --useless 0"
        large = "make-data ../large --queries 150 --mean-length 30"
        gbm = _GBM.replace("--rounds 6", "--rounds 3")
        xgb = _XGB.replace("--rounds 6", "--rounds 3")
        for words in (small, large, gbm, xgb):
            assert in_child(partial(self.command, words), log) == 0, log.read_text()
        shutil.move(self.folder / "large/train.txt", self.data / "large.txt")
        self.old = contents(self.run)
        words = (
            "simulate-clicks model.txt ../data/train.txt --impressions 40 -o"
            " ../data/train.txt.clicks"
        )
        assert in_child(partial(self.command, words), log) == 0, log.read_text()
        rows = [
            f"{row},{position},{row % 3 // 2}"
            for row in range(1, 40)
            for position in (row % 2 + 1, row % 5 + 2)
        ]
        (self.data / "sessions.csv").write_text("\n".join(["row,position,clicked", *rows]) + "\n")
        for name in ("model.txt", "model.txt.meta.json"):
            shutil.copy(self.run / name, self.data / name)
        self.old |= {name: (self.run / name).read_bytes() for name in list(self.old)}
        for words in (_GBM, _XGB):
            status = in_child(
                partial(self.command, f"{words} --checkpoint-every 2", lost=True), log
            )
            assert status == 3, log.read_text()
        self.old |= {
            name: data for name, data in contents(self.run).items() if name.endswith(".checkpoint")
        }
        self.inputs = contents(self.data)

    def command(self, words: str, faults: Faults | None = None, lost: bool = False) -> int:
        """Run it in this process; its exit status. A training that comes to saving its model leaves
        a file `saving`.
        """
        os.chdir(self.run)
        tempfile.tempdir = str(self.temporary)
        save = boostrank.RankingModel.save

        def saved(model: boostrank.RankingModel, path: str) -> None:
            with contextlib.suppress(FileExistsError):
                if words.startswith("train"):
                    os.mkdir(self.folder / "saving")
                # Not before: compiled kernels lie below the home directory.
                stack.enter_context(
                    mock.patch("os.path.expanduser", return_value=str(self.temporary))
                )
            if lost:
                raise boostrank.TrainingError(f"{path}: is not to be written")
            save(model, path)

        with contextlib.ExitStack() as stack:
            stack.callback(setattr, boostrank.RankingModel, "save", save)
            boostrank.RankingModel.save = saved  # type: ignore[method-assign, assignment]
            if faults is not None:
                stack.enter_context(faults)
            try:
                main(words.split())
            except SystemExit as end:
                return int(end.code or 0)
        return 0

    def place(self, files: Files) -> None:
        """Make the files of `run` these, and the others anew."""
        for folder in (self.run, self.temporary):
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(self.folder / "saving")
        for name, data in files.items():
            path = self.run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def watched(self, error: int, for_good: bool) -> tuple[Path, ...]:
        """Folders whose files fail: the disk that is full for good has the temporary files too."""
        everywhere = for_good and error == errno.ENOSPC
        return (self.run, self.data, *([self.temporary] if everywhere else []))

    def counted(self, words: str, faults: Faults) -> int:
        """`command`; the calls go to a file, for the process that forked this one."""
        try:
            return self.command(words, faults)
        finally:
            (self.folder / "calls").write_text(json.dumps(faults.calls))

    def sweep(self, case: Case, deadline: float) -> Iterator[tuple[str, int, list[str]]]:
        """Every fault of a command: which, the exit status, and the promises that were broken."""
        log, existing = self.folder / "log", {name: self.old[name] for name in case.existing}
        self.place(existing)
        # In this process, so that those forked from it have all modules and kernels; on one thread
        # each.
        status = in_process(partial(self.command, case.words), log)
        assert status == 0, log.read_text()
        expected = contents(self.run)
        replaced = {
            name: self.old.get(name, BEFORE) for name in expected if not name.startswith(CACHE)
        } | existing
        replaced.pop("rounds.jsonl", None)  # it is added to
        for for_good, error in FAULTS:
            before, number = (replaced if error == errno.ENOSPC else existing), 1 - self.every
            while time.monotonic() < deadline:
                number += self.every
                faults = Faults(self.watched(error, for_good), number, error, for_good)
                self.place(before)
                status = self.start(partial(self.counted, case.words, faults), log)
                calls = json.loads((self.folder / "calls").read_text())
                if number > len(calls):
                    break
                words = log.read_text(errors="replace")
                broken = self.broken(before, expected, status, words)
                interrupted = (
                    any(name.endswith(".checkpoint") for name in contents(self.run))
                    and "--resume" not in case.words
                )
                again = self.start(
                    partial(self.command, case.words + " --resume" * interrupted), log
                )
                if again != 0 or not same(self.run, contents(self.run), expected):
                    broken.append(f"without a fault it then ends with {again}, or other bytes")
                name, path = calls[number - 1]
                what = f"{name} {number} of {os.path.relpath(path, self.folder)}"
                yield (
                    f"{what}, {errno.errorcode[error]} {'for good' if for_good else 'once'}",
                    status,
                    broken,
                )

    def broken(self, before: Files, expected: Files, status: int, words: str) -> list[str]:
        """What is not as promised after a command of this exit status and output."""
        after, broken = contents(self.run), []
        if status not in (0, 2, 3):
            broken.append(f"exit status {status}")
        if "Traceback" in words or "Exception ignored" in words:
            broken.append("a traceback")
        if status:
            last = next((line for line in words.splitlines() if "boostrank: error: " in line), "")
            names = {
                part for name in (*expected, *before, *self.inputs) for part in Path(name).parts
            }
            names |= {
                "../data",
                "cache: ",
                f"{self.temporary}/",
            }  # rows that are streamed lie there
            if not any(name in last for name in names) or "--debug" in last:
                broken.append(f"no file is named: {last or words!r}")
        elif not same(self.run, after, expected):
            broken.append("it ended well with other files")
        for name, data in after.items():
            fine = data in (before.get(name), expected.get(name)) or name.startswith(CACHE)
            if name == "rounds.jsonl":
                fine = data.endswith(b"\n") or not data
                fine = fine and all(
                    line.startswith(b"{") and line.endswith(b"}") for line in data.splitlines()
                )
            if name.endswith(".checkpoint") and not fine:
                with contextlib.suppress(BoostrankError):
                    fine = _read(str(self.run / name))[2] > 0
            beside = name.removesuffix(".meta.json")
            if f"{beside}.meta.json" in expected and not fine and (self.run / beside).exists():
                with contextlib.suppress(BoostrankError):
                    fine = read_model_files(self.run / beside)[0] in (
                        before.get(beside),
                        expected[beside],
                    )
            if f"{beside}.meta.json" in expected and not fine and beside not in after:
                fine = True  # a description whose model is missing is none, see `write_model_files`
            if not fine or name.endswith((".tmp", ".lock")):
                broken.append(f"{name} is neither as before nor whole and new")
        broken += [
            f"{name} is gone"
            for name in before
            if name not in after and not name.endswith(".checkpoint")
        ]
        if contents(self.data) != self.inputs:
            broken.append("an input was changed")
        return broken + self.unsaved(expected, status, words)

    def unsaved(self, expected: Files, status: int, words: str) -> list[str]:
        """Whether a model that was trained is neither in place, nor elsewhere, nor said to be lost."""
        kept = contents(self.temporary)
        others = [name for name in kept if not name.startswith("boostrank-rescued-")]
        broken = [f"{others} left among temporary files"] * bool(others)
        if status and (self.folder / "saving").exists():
            model = next(name for name in expected if name in ("model.txt", "model.json"))
            rescued = [data for name, data in kept.items() if Path(name).name == model]
            if (
                not ("was written to" in words and expected[model] in rescued)
                and "is lost" not in words
            ):
                broken.append("a trained model is lost")
        elif kept:
            broken.append("a rescued model that nobody was told of")
        return broken


def contents(folder: Path) -> Files:
    """Bytes of all files below, by relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def same(run: Path, after: Files, expected: Files) -> bool:
    """Whether these are the files of an untouched run; a sidecar may still remember the model
    before.
    """

    def plain(files: Files) -> Files:
        skipped = [name for name in expected if name.endswith(".meta.json")]
        return {
            n: d
            for n, d in files.items()
            if not n.startswith(CACHE) and n not in (*skipped, "rounds.jsonl")
        }

    for name in expected:
        if name.endswith(".meta.json") and after.get(name) != expected[name]:
            body, sidecar = read_model_files(run / name.removesuffix(".meta.json"))
            expected_sidecar = json.loads(expected[name])
            expected_sidecar.pop("file")
            if sidecar != expected_sidecar or body != expected[name.removesuffix(".meta.json")]:
                return False
    return plain(after) == plain(expected)


def say(text: str) -> None:
    """Print it now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run_all(seconds: float, chosen: list[str], folder: Path) -> bool:
    """Sweep the commands, print a table; whether all was kept."""
    sweep = Sweep(folder)
    sweep.prepare()
    deadline = time.monotonic() + seconds
    rows, kept = [], True
    for case in CASES:
        if chosen and case.name not in chosen:
            continue
        tally = {"faults": 0, "ended well": 0, "2": 0, "3": 0, "broken": 0}
        started = time.monotonic()
        for what, status, broken in sweep.sweep(case, deadline):
            tally["faults"] += 1
            tally[{0: "ended well", 2: "2"}.get(status, "3")] += 1
            tally["broken"] += bool(broken)
            for broken_promise in broken:
                say(f"{case.name}: {what}: {broken_promise}")
        stopped = ", out of time" * (time.monotonic() >= deadline)
        rows.append(
            f"{case.name:<20}" + "".join(f"{count:>12}" for count in tally.values()) + stopped
        )
        say(f"{case.name}: {tally['faults']} faults in {time.monotonic() - started:.0f} s")
        kept = kept and not tally["broken"]
    say(
        f"\n{'command':<20}"
        + "".join(f"{name:>12}" for name in ("faults", "ended well", "2", "3", "broken"))
    )
    say("\n".join(rows))
    return kept


if __name__ == "__main__":
    os.environ.update({**openmp_environment(), "OMP_NUM_THREADS": "1"})
    with contextlib.suppress(ImportError):
        import boostrank.engines.lightgbm.adapter
        import boostrank.engines.xgboost.adapter
        import boostrank.fit.from_data
        import boostrank.reporting.page
    with tempfile.TemporaryDirectory() as name:
        limit, *chosen = sys.argv[1:] or ["inf"]
        kept = run_all(float(limit), chosen, Path(name).resolve())
    sys.exit(int(not kept))
