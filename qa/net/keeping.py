"""Outputs of cases: made comparable, hashed, compared with what is kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import re
import shlex
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import boostrank
from qa.net.data import rows, write_files

KEPT = Path(__file__).parent / "hashes.json"
SMALL = {
    "lightgbm": {"verbosity": -1, "num_leaves": 5, "min_data_in_leaf": 4},
    "xgboost": {"verbosity": -1, "num_leaves": 5, "min_child_weight": 0.01},
    "linear": {},
}
"""Trees that a few hundred rows can grow."""

VOLATILE = re.compile(
    r".*seconds.*|time|threads|n_jobs|num_threads|nthread|versions|file|limit_bytes|why"
)
"""Names in JSON of what differs from run to run, between machines, or between versions that write
the same.
"""
UNKEPT = re.compile(r"(cache|checkpoint|\.).*|.*\.(study|gz)")
"""Files whose bytes are not promised."""
UNTHREADED = re.compile("average|count-clicks|make|objectives|propensities|sample|shard|sort|split")
WORDS = dict(
    re.findall(
        r"^([A-Z]+) = (.*)",
        (KEPT.parent / "commands.txt").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)


class Bench:
    """A folder to train in, and the outputs of a case: name -> text.

    Args:
        threads: of every training and command.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.outputs: dict[str, str] = {}

    def data(self, part: str = "train", form: str = "text", like: Any = None) -> Any:
        """A `RankingDataset` of a part.

        Args:
            part: "train" or "valid".
            form: text, streamed, external, csv, parquet; frames: categories, weighted, rows (their
                weights).
            like: the training set of a validation set.
        """
        if form == "text":
            return boostrank.read(f"data/{part}.txt", like=like)
        if form in ("streamed", "external"):
            return boostrank.stream(
                f"data/{part}.txt", like=like, cache="cache", external_memory=form == "external"
            )
        drop = {"kind", "weight", "row_weight"}
        if form in ("csv", "parquet"):
            return boostrank.read(f"data/{part}.{form}", like=like, drop=sorted(drop))
        if form == "categories":
            frame = rows(part).astype({"kind": "category"})
            return boostrank.RankingDataset.from_frame(frame, drop=sorted(drop - {"kind"}))
        weight = {"weighted": "weight", "rows": "row_weight"}[form]
        return boostrank.RankingDataset.from_frame(
            rows(part), weight=weight, drop=sorted(drop - {weight})
        )

    def train(
        self, params: Mapping[str, Any], train_set: Any, rounds: int | None = 5, **options: Any
    ) -> Any:
        """`boostrank.train` of small trees."""
        settings = {
            **SMALL[options.get("backend", "lightgbm")],
            **params,
            "num_threads": self.threads,
        }
        return boostrank.train(settings, train_set, rounds, **options)

    def keep(self, name: str, value: Any) -> None:
        """Keep an output: text, an array of numbers, or what is JSON."""
        assert name not in self.outputs, name
        if isinstance(value, np.ndarray):
            value = "".join(f"{number!r}\n" for number in value.ravel().tolist())
        self.outputs[name] = (
            value if isinstance(value, str) else json.dumps(steady(value), indent=1, sort_keys=True)
        )

    def keep_model(self, model: Any, data: Any, exports: str = "", name: str = "model") -> None:
        """Keep a model's scores of data, and write it and what it is exported as."""
        scores = model.predict(data, threads=self.threads)
        model.save(name)
        loaded = boostrank.RankingModel.load(name).predict(data, threads=self.threads)
        assert np.array_equal(scores, loaded), "the file scores otherwise than the model"
        self.keep(f"{name}.scores", scores)
        for target in exports.split():
            boostrank.export_model(model, f"{name}.export-{target}", target, name="net")

    def commands(self, lines: Sequence[str]) -> None:
        """Run commands, the words in capitals written out."""
        for line in lines:
            self.command(re.sub(r"[A-Z]{4,}", lambda word: WORDS[word[0]], line))

    def command(self, line: str) -> None:
        """Run a command and keep what it prints. `1: compare ...` is one that ends with status 1."""
        from click.testing import CliRunner

        from boostrank.cli import main

        status, words = re.fullmatch(r"(?:(\d): )?(.*)", line).groups()
        arguments = shlex.split(words)
        name = arguments[arguments[0] in ("data", "study")]
        if not UNTHREADED.fullmatch(name):
            arguments += ["--threads", str(self.threads)]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == int(status or 0), (
            f"{line}: status {done.exit_code}: {done.stderr} {done.exception!r}"
        )
        out = done.stdout
        output = json.loads(out) if "--json" in arguments else out
        self.keep(f"{len(self.outputs):02}-{name}", output)

    def keep_files(self, before: set[Path]) -> None:
        """Keep the files that are new; of a model's record, its metrics of each round apart."""
        for path in sorted(set(Path().rglob("*")) - before):
            if path.is_dir() or any(UNKEPT.fullmatch(part) for part in path.parts):
                continue
            name, text = "-".join(path.parts), path.read_text(encoding="utf-8")
            if name.endswith(".meta.json"):
                record = json.loads(text)
                self.keep(name.replace(".meta.json", ".rounds"), record.pop("evals_result", {}))
                self.keep(name.replace(".meta.json", ".record"), record)
            elif name.endswith(".jsonl"):
                self.keep(name, [json.loads(line) for line in text.splitlines()])
            else:
                self.keep(name, text)


def steady(value: Any) -> Any:
    """JSON without what differs from run to run."""
    if isinstance(value, Mapping):
        return {
            str(key): steady(content)
            for key, content in value.items()
            if not VOLATILE.fullmatch(str(key))
        }
    return [steady(element) for element in value] if isinstance(value, list | tuple) else value


def outputs_of(case: Any, threads: int) -> dict[str, str]:
    """Run a case in a folder of its own, and give its outputs by name."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        Path("data").mkdir()
        write_files(Path("data"))
        before, bench = set(Path().rglob("*")), Bench(threads)
        case(bench)
        bench.keep_files(before)
    return bench.outputs


def hashes_of(outputs: Mapping[str, str]) -> dict[str, str]:
    """Name -> the first digits of its SHA-256."""
    return {
        name: hashlib.sha256(text.encode()).hexdigest()[:16]
        for name, text in sorted(outputs.items())
    }


def fingerprint() -> dict[str, str]:
    """What the hashes depend on beside the code."""
    import xgboost
    from llvmlite import binding

    packages = (
        "lightgbm",
        "numpy",
        "numba",
        "scipy",
        "optuna",
        "pandas",
        "pyarrow",
        "scikit-learn",
    )
    features = np.show_config(mode="dicts")["SIMD Extensions"]
    machine = {
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": binding.get_host_cpu_name(),
    }
    machine["features"] = " ".join([*features["baseline"], *features.get("found", [])])
    python = ".".join(platform.python_version_tuple()[:2])
    return {
        **machine,
        "python": python,
        **{name: version(name) for name in packages},
        "xgboost": xgboost.__version__,
    }


def read_kept() -> dict[str, Any]:
    """What `hashes.json` holds: the fingerprint, and of each case output -> hash."""
    return dict(json.loads(KEPT.read_text(encoding="utf-8")))


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of what differs, is new or is gone."""
    return [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
