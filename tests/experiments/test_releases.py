"""Recipes of public data sets, on small imitations of their layouts: from the folder to the table,
and again.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from boostrank.data.synthetic import make_ranking_data
from boostrank.files.writer import write_libsvm
from experiments.releases import layouts, run
from experiments.releases.layouts import RELEASES, Release, counted
from experiments.releases.methods import PUBLISHED, REFERENCE, methods

Imitation = Callable[..., Path]


@pytest.fixture
def imitation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imitation:
    """Writes the files of releases, publishes their sizes, and trains within this process."""
    monkeypatch.setattr(run, "apart", lambda function, *arguments: function(*arguments))

    def make(name: str, folder: str) -> Path:
        release = next(candidate for candidate in RELEASES if candidate.name == name)
        sizes = {}
        for fold in release.folds[:2]:
            for seed, (part, path) in enumerate(release.paths(tmp_path / folder, fold).items()):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_libsvm(
                    path, make_ranking_data(20, seed=10 * fold + seed, mean_length=12.0).dataset
                )
                if release.reading:  # as Istella has them
                    path.write_text(
                        path.read_text().replace(" 2:", " 2:1.79769313486231e+308 3:", 1), "latin1"
                    )
                sizes[fold, part] = counted(path)
        releases = [
            replace(release, sizes=sizes) if candidate.name == name else candidate
            for candidate in layouts.RELEASES
        ]
        monkeypatch.setattr(layouts, "RELEASES", releases)
        return tmp_path / folder

    return make


def call(monkeypatch: pytest.MonkeyPatch, out: Path, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["run", *map(str, words), "--threads", "1", "--out", str(out)])
    run.main()


def test_mslr_from_folder_to_table(
    imitation: Imitation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = imitation("web10k", "MSLR-WEB10K")
    words = (
        "mslr",
        folder,
        "--folds",
        "1,2",
        "--rounds",
        3,
        "--methods",
        "XGBoost|QueryRMSE|boostrank lambdarank",
    )
    call(monkeypatch, tmp_path / "out", *words)
    # Under each convention a row for each method and for each published number.
    table = (tmp_path / "out" / "web10k.md").read_text()
    asked = [REFERENCE, "XGBoost, LightGBM's page", "boostrank lambdarank, LightGBM's page"]
    if importlib.util.find_spec("catboost"):
        asked.append("CatBoost QueryRMSE, CatBoost's benchmark")
    for rules in ("default", "lightgbm", "mslr"):
        rows = [row for row in table.splitlines() if row.startswith(f"| {rules} ")]
        assert sum(any(f"| {name} " in row for name in asked) for row in rows) == len(asked)
        assert sum("published" in row for row in rows) == sum(
            p.conventions == rules for p in PUBLISHED["web10k"]
        )
        assert all(
            (row.count("[") == 5) == (rules == "default") for row in rows if "published" not in row
        )
    # The same again, of what was kept.
    monkeypatch.setattr(run, "trained", lambda *_: pytest.fail("trained once more"))
    call(monkeypatch, tmp_path / "out", *words)
    assert (tmp_path / "out" / "web10k.md").read_text() == table


def test_yahoo_has_two_sets(
    imitation: Imitation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imitation("set1", "yahoo")
    folder = imitation("set2", "yahoo")
    call(monkeypatch, tmp_path / "out", "yahoo", folder, "--rounds", 2, "--methods", "none")
    for name in ("set1", "set2"):
        assert REFERENCE in (tmp_path / "out" / f"{name}.md").read_text()


def test_istella_reads_odd_values_and_holds_queries_out(
    imitation: Imitation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imitation("istella", "istella")
    folder = imitation("istella-s", "istella")
    words = ("istella", folder, "--rounds", 2, "--methods", "LightGBM, CatBoost")
    call(monkeypatch, tmp_path / "out", *words)
    for name in ("istella", "istella-s"):
        assert "LightGBM, CatBoost's benchmark" in (tmp_path / "out" / f"{name}.md").read_text()


def test_a_training_has_its_own_process(
    imitation: Imitation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = imitation("set2", "yahoo")
    release = next(candidate for candidate in RELEASES if candidate.name == "set2")
    method = replace(methods("yahoo")[1], rounds=2)
    cell = run.Cell(release, folder, 1, method, counted)
    assert "error" in cell._replace(method=replace(method, params={"objective": "no such"})).run(1)
    monkeypatch.undo()
    done = cell.run(1)
    assert done["trees"] == 2
    assert done["peak"] > 0


@pytest.mark.parametrize("what", ["cut", "missing"])
def test_half_a_download_is_refused(
    imitation: Imitation, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = imitation("web10k", "MSLR-WEB10K")
    file = folder / "Fold1" / "vali.txt"
    rows = counted(file).rows
    if what == "cut":
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:100]))
    else:
        file.unlink()
    with pytest.raises(SystemExit) as refused:
        call(monkeypatch, tmp_path / "out", "mslr", folder, "--folds", "1")
    message = str(refused.value)
    assert str(file) in message
    words = ["100 rows", f"{rows} rows"] if what == "cut" else ["missing"]
    assert all(word in message for word in words)


def test_a_fold_is_compared_as_a_whole_where_no_source_says_more(imitation: Imitation) -> None:
    folder = imitation("istella-s", "istella")
    release = next(candidate for candidate in layouts.RELEASES if candidate.name == "istella-s")
    whole = layouts.Size(*map(sum, zip(*release.sizes.values(), strict=True)))
    assert not list(layouts.faults(replace(release, sizes={(1, ""): whole}), folder, 1))
    less = replace(release, sizes={(1, ""): whole._replace(rows=whole.rows - 1)})
    (line,) = layouts.faults(less, folder, 1)
    assert str(folder / "sample") in line
    assert f"{whole.rows - 1} rows" in line


def test_mslr_releases_are_told_apart_by_name(imitation: Imitation) -> None:
    folder = imitation("web30k", "MSLR-WEB30K")
    assert [release.name for release in layouts.found("mslr", folder)] == ["web30k"]
    other = folder.rename(folder.parent / "mslr")
    with pytest.raises(SystemExit, match="--release web10k"):
        layouts.found("mslr", other)
    assert [release.name for release in layouts.found("mslr", other, ["web10k"])] == ["web10k"]
    with pytest.raises(SystemExit, match="web40k"):
        layouts.found("mslr", other, ["web40k"])
    with pytest.raises(SystemExit, match=r"set1\.train\.txt"):
        layouts.found("yahoo", other)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_published_sizes_add_up(release: Release) -> None:
    for fold in release.folds:
        parts = [release.published(fold, part) for part in release.files]
        total = release.published(fold, "")
        for of_parts, of_fold in zip(zip(*parts, strict=True), total, strict=True):
            if of_fold is not None and None not in of_parts:
                assert sum(of_parts) == of_fold
