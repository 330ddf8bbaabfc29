"""One target in a process of its own, which may die of a case: the parent finds that case in
FOLDER/current.

    python -m qa.fuzz.worker TARGET FOLDER --seconds 60 --seed 1 [--guided]
    python -m qa.fuzz.worker TARGET,TARGET... FOLDER [--examples '{"TARGET": 100}']

Without --seconds the kept cases are replayed, and so many fresh ones drawn.

FOLDER/current holds the number of cases so far and the case at work; FOLDER/found.jsonl one line a
fault, each kind of fault once; FOLDER/seen the kinds that are known. Guided by coverage where
atheris is installed: it sees Python alone, so modules whose functions numba compiles are left as
they are.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import pathlib
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

_ADDRESS_SPACE = 12 << 30  # so that one that takes far more fails before the machine does
_ROUND = 200
REPOSITORY = Path(__file__).parents[2]
NOT_OURS = (KeyboardInterrupt, SystemExit)


class Recorder:
    """Runs cases, and writes down where they are and what went wrong.

    Args:
        folder: for `current`, `found.jsonl` and `seen`.
        check: of the target.
        memory: bytes that a case may take on top of what the process had.
    """

    def __init__(self, folder: Path, check: Callable[..., None], memory: int) -> None:
        self.check, self.folder, self.memory, self.cases = check, folder, memory, 0
        self.seen = (
            set((folder / "seen").read_text().split("\n")) if (folder / "seen").exists() else set()
        )
        self.current = os.open(folder / "current", os.O_RDWR | os.O_CREAT)
        self.faults = 0

    def begin(self, case: dict[str, Any]) -> None:
        """Write the case down before it runs."""
        self.cases += 1
        text = f"{self.cases}\n{case!r}".encode()
        os.pwrite(self.current, text, 0)
        os.ftruncate(self.current, len(text))

    def run(self, case: dict[str, Any]) -> None:
        """Check a case; a fault is written down."""
        self.begin(case)
        before = peak_bytes()
        try:
            with quiet():
                self.check(**case)
        except NOT_OURS:
            raise
        except BaseException as error:  # pytest's failures are no Exception
            frames = traceback.extract_tb(error.__traceback__)
            ours = [f for f in frames if "/boostrank/" in f.filename] or frames
            kind = f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].name}"
            if type(error).__name__ == "PromiseBroken":
                kind += f" {str(error)[:40]}"
            self.report(kind, case, "".join(traceback.format_exception(error))[-4000:])
        if peak_bytes() - before > self.memory:
            self.report("memory", case, f"{(peak_bytes() - before) >> 20} MB more than before")
            os._exit(0)  # a peak is found once in a process

    def report(self, kind: str, case: dict[str, Any], words: str) -> None:
        """One line for a fault of a kind that is not known yet."""
        kind = " ".join(kind.split())
        if kind in self.seen:
            return
        self.seen.add(kind)
        self.faults += 1
        for name, line in (
            ("found.jsonl", json.dumps({"kind": kind, "case": repr(case), "words": words})),
            ("seen", kind),
        ):
            with open(self.folder / name, "a") as file:
                file.write(line + "\n")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What is printed is lost."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def peak_bytes() -> int:
    """The most memory that this process ever had."""
    with contextlib.suppress(
        OSError
    ):  # what getrusage tells begins with the peak of the process that started this one
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def compiled_modules() -> list[str]:
    """Modules of boostrank whose bytecode numba reads, and which must stay as they are."""
    modules = []
    for path in sorted((REPOSITORY / "boostrank").rglob("*.py")):
        text = path.read_text()
        if "numba" in text or "kernels" in text:
            modules.append(
                ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(
                    ".__init__"
                )
            )
    return modules


def fuzz(target: Any, recorder: Recorder, seconds: float, first_seed: int) -> None:
    """Cases as hypothesis draws them, until the time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        first_seed += 1
        draw(target, recorder, _ROUND, first_seed, end)


def draw(
    target: Any, recorder: Recorder, examples: int, number: int, end: float = float("inf")
) -> None:
    """So many cases of a seed."""

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=target.cases)
    def one(case: dict[str, Any]) -> None:
        if time.monotonic() < end:
            recorder.run(case)

    one()


def fuzz_guided(
    target: Any, recorder: Recorder, seconds: float, first_seed: int, folder: Path
) -> None:
    """Cases drawn from bytes that atheris changes towards code not yet seen. Does not return."""
    import atheris

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=target.cases)
    def one(case: dict[str, Any]) -> None:
        recorder.run(case)

    corpus = folder / "coverage"
    corpus.mkdir(exist_ok=True)
    options = [
        f"-max_total_time={max(int(seconds), 1)}",
        f"-seed={first_seed + 1}",
        "-max_len=4096",
        "-len_control=0",
        "-rss_limit_mb=0",
        "-timeout=3600",
        "-verbosity=0",
        f"-artifact_prefix={folder}/",
    ]
    if not any(corpus.iterdir()):
        for number in range(50):
            (corpus / str(number)).write_bytes(os.urandom(1024))
    atheris.Setup(
        [sys.argv[0], str(corpus), *options],
        lambda data: one.hypothesis.fuzz_one_input(data) and None,
    )
    atheris.Fuzz()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--guided", action="store_true")
    parser.add_argument("--examples", type=json.loads, default={})
    parser.add_argument("--memory", type=int, default=2 << 30)
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))
    scratch = arguments.folder / "scratch"
    scratch.mkdir(exist_ok=True)
    folder = arguments.folder.resolve()
    os.chdir(scratch)
    if arguments.guided:
        import atheris

        with atheris.instrument_imports(include=["boostrank"], exclude=compiled_modules()):
            import_all()
            target = import_module(f"qa.fuzz.targets.{arguments.target}")
        fuzz_guided(
            target,
            Recorder(folder, target.check, arguments.memory),
            arguments.seconds,
            arguments.seed,
            folder,
        )
    for name in arguments.target.split(","):
        if arguments.seconds:
            target = import_module(f"qa.fuzz.targets.{name}")
            fuzz(
                target,
                Recorder(folder, target.check, arguments.memory),
                arguments.seconds,
                arguments.seed,
            )
        else:
            replay(name, folder, arguments.memory, arguments.examples.get(name, 0), arguments.seed)


def replay(name: str, folder: Path, memory: int, examples: int, number: int) -> None:
    """The kept cases of a target, and some fresh ones."""
    kept = sorted((Path(__file__).parent / "corpus" / name).glob("*.txt"))
    if not (kept or examples):
        return
    target = import_module(f"qa.fuzz.targets.{name}")
    recorder = Recorder(folder, target.check, memory)
    for path in kept:
        recorder.run(ast.literal_eval(path.read_text()))
    if examples:
        draw(target, recorder, examples, number)


def import_all() -> None:
    """Load what commands load when they run, while imports are instrumented."""
    from pkgutil import walk_packages

    import boostrank

    for module in walk_packages(boostrank.__path__, "boostrank."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                import_module(module.name)


if __name__ == "__main__":
    main()
