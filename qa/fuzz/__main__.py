"""`python -m qa.fuzz --seconds 600 [TARGET ...]`: every target in a process of its own, two at
once.

A process that dies of a signal, does not come to its next case within 20 seconds of its own work or
120 of waiting, or takes 2 GB for one is a fault like any other: the case is kept, and another
process goes on behind it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
HANG, MEMORY = 20.0, 2 << 30
"""Processor seconds and bytes that a case may take."""
WAIT = 120.0
"""Seconds of the clock for the same: a process may have to wait for others, and one that waits in
vain does no work.
"""
START = 180.0
"""Processor seconds of the first one, which compiles kernels, behind imports that coverage
instruments.
"""
_POLL = 0.2
_MOST_DEATHS = 10
_AT_ONCE = 2


@dataclass
class Outcome:
    """What a run of a target came to."""

    target: str
    cases: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Kind of fault, name of the kept case."""


def targets() -> list[str]:
    """Names of all."""
    names = (module.name for module in pkgutil.iter_modules([str(HERE / "targets")]))
    return sorted(name for name in names if not name.startswith("_"))


def run(
    target: str,
    seconds: float,
    seed: int,
    folder: Path,
    guided: bool,
    most_deaths: int = _MOST_DEATHS,
) -> Outcome:
    """Fuzz one target for so many seconds."""
    outcome, end = Outcome(target), time.monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("found.jsonl", "seen"):
        (folder / name).unlink(missing_ok=True)
    deaths = 0
    while (left := end - time.monotonic()) > 1 and deaths < most_deaths:
        (folder / "current").unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "qa.fuzz.worker",
            target,
            str(folder),
            "--seconds",
            str(left),
        ]
        command += [
            "--seed",
            str(1000 * seed + 100 * deaths),
            "--memory",
            str(MEMORY),
            *(["--guided"] if guided else []),
        ]
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            why = watch(process, folder / "current", end)
        cases, case = read_current(folder / "current")
        outcome.cases += cases
        deaths += 1  # a process that took too much memory has written that down, and ended
        if why:
            if not case:
                text = (folder / "log").read_text(errors="replace")[-2000:]
                outcome.faults.append((f"{why} before the first case: {text}", "-"))
                break
            keep(outcome, why, case, (folder / "log").read_text(errors="replace")[-2000:])
        if (folder / "found.jsonl").exists():
            for line in (folder / "found.jsonl").read_text().splitlines():
                fault = json.loads(line)
                keep(outcome, fault["kind"], fault["case"], fault["words"])
            (folder / "found.jsonl").unlink()
    if outcome.cases == 0 and not outcome.faults:
        outcome.faults.append(("no case ran", "-"))
    return outcome


def watch(process: subprocess.Popen[bytes], current: Path, end: float) -> str:
    """Wait for a process; why it ended before its time, empty if it did not."""
    cases, since, worked = 0, time.monotonic(), 0.0
    while process.poll() is None:
        time.sleep(_POLL)
        now, (done, _) = time.monotonic(), read_current(current)
        work = processor_seconds(process.pid)
        most_work, longest = (HANG, WAIT) if cases > 1 else (START, 10 * START)
        if done != cases:
            cases, since, worked = done, now, work
        elif work - worked > most_work or now - since > longest:
            process.kill()
            process.wait()
            return "hang"
        if cases and now > end + WAIT:  # guided runs end themselves between two cases
            process.kill()
            process.wait()
            return ""
    return f"exit status {process.returncode}" if process.returncode else ""


def processor_seconds(pid: int) -> float:
    """What the process has used of a core so far; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_current(path: Path) -> tuple[int, str]:
    """The number of cases so far, and the case at work."""
    try:
        number, _, case = path.read_text(errors="replace").partition("\n")
        return int(number or 0), case
    except (OSError, ValueError):
        return 0, ""


def keep(outcome: Outcome, kind: str, case: str, words: str) -> None:
    """Put the case that showed a fault into the corpus."""
    name = hashlib.sha256(case.encode()).hexdigest()[:12] + ".txt"
    outcome.faults.append((kind, name))
    path = CORPUS / outcome.target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(case + "\n")
    sys.stdout.write(f"{outcome.target}: {kind}: {os.path.relpath(path)}\n{words}\n")
    sys.stdout.flush()


def compile_kernels(chosen: list[str], folder: Path) -> None:
    """Run kept cases of each target and a few fresh ones once, so that hardly any later case waits
    for a compiler.
    """
    few = json.dumps(dict.fromkeys(chosen, 3))
    command = [
        sys.executable,
        "-m",
        "qa.fuzz.worker",
        ",".join(chosen),
        str(folder),
        "--examples",
        few,
    ]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def main() -> int:
    """The number of targets with faults."""
    parser = argparse.ArgumentParser(prog="python -m qa.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them unless named")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument(
        "--unguided", action="store_true", help="without atheris, where it is installed"
    )
    parser.add_argument("--folder", type=Path, help="keeps what coverage has found from run to run")
    arguments = parser.parse_args()
    chosen = arguments.targets or targets()
    unknown = sorted(set(chosen) - set(targets()))
    if unknown:
        parser.error(f"unknown target {unknown[0]!r}; known: {', '.join(targets())}")
    guided = not arguments.unguided and importlib.util.find_spec("atheris") is not None
    at_once = min(_AT_ONCE, os.cpu_count() or 1)
    each = arguments.seconds * at_once / len(chosen) if len(chosen) > 1 else arguments.seconds
    how = "guided by coverage" if guided else "not guided: pip install atheris"
    sys.stdout.write(
        f"{len(chosen)} targets, {each:.0f} s each, {at_once} at once, seed {arguments.seed},"
        f" {how}\n"
    )
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(at_once) as pool:
        root = (arguments.folder or Path(temporary)).resolve()
        compile_kernels(chosen, Path(temporary))
        runs = [
            pool.submit(run, name, each, arguments.seed, root / name, guided) for name in chosen
        ]
        outcomes = [future.result() for future in runs]
    sys.stdout.write(f"\n{'target':<20}{'cases':>10}  new faults\n")
    for outcome in outcomes:
        sys.stdout.write(f"{outcome.target:<20}{outcome.cases:>10,}  {len(outcome.faults)}\n")
        for kind, name in outcome.faults:
            sys.stdout.write(f"{'':<32}{kind} ({name})\n")
    return sum(bool(outcome.faults) for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main() > 0)
