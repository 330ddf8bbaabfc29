"""`simulate-clicks`, `propensities`, `train --clicks` and `compare --clicks`, one after the other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boostrank
from boostrank.clicks.estimation import estimate_propensities
from boostrank.clicks.log import Propensities
from boostrank.clicks.simulate import simulate_clicks
from boostrank.clicks.tables import read_clicks
from boostrank.core.errors import InputError
from boostrank.core.queries import QueryIndex
from boostrank.model.ranking_model import RankingModel
from boostrank.routes import Work
from tests.cli.conftest import FEW, invoke, messages, refuse, sidecar, succeed

HEADER = "row,position,impressions,clicks\n"


def dcg(gains: np.ndarray, queries: QueryIndex, scores: np.ndarray) -> float:
    """Mean DCG@10 of the queries with a gain; where scores are equal, the mean of their gains
    counts at each rank.
    """
    values = []
    for start, stop in zip(queries.ptr[:-1], queries.ptr[1:], strict=True):
        query_gains, s = gains[start:stop], scores[start:stop]
        expected = np.array([query_gains[s == score].mean() for score in s])[
            np.argsort(-s, kind="stable")
        ][:10]
        if query_gains.any():
            values.append(float(np.sum(expected / np.log2(np.arange(2, expected.size + 2)))))
    return float(np.mean(values))


def simulate(data: Path, ranker: Path, **how: Any) -> None:
    """As the command does, with more choices."""
    rows, model = boostrank.read(data), RankingModel.load(ranker)
    log = simulate_clicks(rows.labels, rows.queries, model.predict(rows), **how)
    log.renumbered(rows.input_rows).write(f"{data}.clicks")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.txt and held.txt with clicks, logger.txt that made their lists, p.json, m.txt trained
    on them.
    """
    folder = tmp_path_factory.mktemp("clicks")
    succeed("data", "make", folder, "--queries", 180, "--mean-length", 12)
    (folder / "test.txt").rename(folder / "held.txt")
    succeed("train", folder / "valid.txt", "-m", folder / "logger.txt", *FEW)
    for name in ("train", "held"):
        simulate(folder / f"{name}.txt", folder / "logger.txt", impressions=40, shown=6, spread=1.0)
    succeed("data", "propensities", folder / "train.txt.clicks", "-o", folder / "p.json")
    result = succeed("train", folder / "train.txt", "--clicks", "-m", folder / "m.txt", *FEW)
    (folder / "train.log").write_text(result.stderr)
    return folder


def test_the_log_is_of_the_rows_of_the_file(folder: Path) -> None:
    data = boostrank.read(folder / "train.txt")
    log = read_clicks(folder / "train.txt.clicks", data.n_documents)
    lists = np.bincount(data.queries.of_rows()[log.rows], log.impressions)
    assert lists.tolist() == (40 * np.minimum(data.queries.sizes, 6)).tolist()


def test_propensities_are_printed_and_checked(folder: Path) -> None:
    result = invoke("data", "propensities", folder / "train.txt.clicks")
    assert re.search(r"^ +2 +0\.\d+ +0\.\d+ to 0\.\d+$", result.stdout, re.MULTILINE)
    Propensities(np.arange(1.0, 7.0) ** -3).write(folder / "wrong.json")
    trained = invoke(
        "train",
        folder / "train.txt",
        "--clicks",
        "--propensities",
        folder / "wrong.json",
        "-m",
        folder / "w.txt",
        *FEW,
    )
    assert "clicks contradict these propensities" in trained.stderr
    assert "not reliable" in trained.stderr
    propensities = json.loads(
        invoke("data", "propensities", folder / "train.txt.clicks", "--json").stdout
    )
    expected = estimate_propensities(read_clicks(folder / "train.txt.clicks")).examination
    np.testing.assert_allclose(propensities["examination"], expected)


def test_training_learns_clicks_over_exposure_of_what_was_shown(folder: Path) -> None:
    data = boostrank.read(folder / "train.txt")
    log = read_clicks(folder / "train.txt.clicks", data.n_documents)
    curve = estimate_propensities(log, data.queries)
    how = sidecar(folder / "m.txt")["data"]["reader"]["clicks"]  # type: ignore[index]
    assert how["prior"] == 1.0
    np.testing.assert_allclose(how["propensities"]["examination"], curve.examination)
    train_log = (folder / "train.log").read_text()
    assert f"{log.shown.sum():,} rows, " in train_log
    assert "documents that moved: Propensities(" in train_log
    clicked = np.unique(data.queries.of_rows()[log.total_clicks() > 0]).size
    assert re.search(
        r"debiased against click counts, single trainings, on queries held out in 5 turns, by .*: "
        rf"exposure-DCG@10 of {clicked} queries: .*; \d+% of the new top 10 was",
        train_log,
    )
    assert re.search(r"^last round 4 .* dcg@10$", train_log, re.MULTILINE)


def test_the_plan_knows_the_copies_that_clicks_take(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = []

    def find_route(work: Work, **options: object) -> None:
        planned.append(work.copies)
        raise InputError("no more is needed")

    monkeypatch.setattr("boostrank.routes.find_route", find_route)
    train = ("train", folder / "train.txt", "-m", folder / "no.txt", *FEW)
    for words in ((), ("--clicks",), ("--clicks", "--valid", folder / "held.txt")):
        refuse(*train, *words)
    # Of what was shown, all and what the gate learns; without --valid the gate's two sides besides.
    assert planned == [0.0, pytest.approx(1 + 0.8 + 1), 2.0]


def test_a_validation_file_is_measured_by_its_clicks(folder: Path) -> None:
    words = ("--clicks", "--propensities", folder / "p.json", "--click-prior", "0")
    result = succeed(
        "train",
        folder / "train.txt",
        *words,
        "--valid",
        folder / "held.txt",
        "-m",
        folder / "v.txt",
        *FEW,
    )
    assert "exposure-DCG@10 of 36 queries" in result.stderr
    data, curve = boostrank.read(folder / "held.txt"), Propensities.read(folder / "p.json")
    gains = np.nan_to_num(
        read_clicks(folder / "held.txt.clicks", data.n_documents).gains(curve, 0.0)
    )
    model = RankingModel.load(folder / "v.txt")
    expected = dcg(gains, data.queries, model.predict(data))
    assert re.search(rf"^held .* {expected:.4f}$", result.stderr, re.MULTILINE)


def test_presets_choose_by_clicks(folder: Path) -> None:
    data = (folder / "train.txt", "--clicks", "--valid", folder / "held.txt")
    result = succeed(
        "train", *data, "-m", folder / "q.txt", "--rounds", 4, "--quality", "quick", "--threads", 1
    )
    assert re.search(r"^round 4/4  held dcg@10 ", result.stderr, re.MULTILINE)


def test_comparing_by_clicks_is_the_exposure_dcg(folder: Path) -> None:
    files = (folder / "logger.txt", folder / "m.txt", folder / "held.txt")
    result = succeed("compare", *files, "--clicks", "--propensities", folder / "p.json", "--json")
    data, curve = boostrank.read(folder / "held.txt"), Propensities.read(folder / "p.json")
    gains = np.nan_to_num(
        read_clicks(folder / "held.txt.clicks", data.n_documents).gains(curve, 0.0)
    )
    old = dcg(gains, data.queries, RankingModel.load(files[0]).predict(data))
    new = dcg(gains, data.queries, RankingModel.load(files[1]).predict(data))
    means = json.loads(result.stdout)["metrics"]["dcg@10"]
    assert means["old"] == pytest.approx(old, abs=1e-9)
    assert means["new"] == pytest.approx(new, abs=1e-9)
    assert any("new top 10" in message for message in messages(result))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--propensities", "p.json"), "--propensities is for --clicks"),
        (("--click-prior", "2"), "--click-prior is for --clicks"),
        (("--clicks", "--gain", "linear"), "--clicks and --gain cannot be used together"),
        (("--clicks", "--within-query", "rank"), "--within-query and --clicks cannot be used"),
        (("--clicks", "--click-prior", "-1"), "--click-prior"),
        (("--clicks", "--valid", "valid.txt"), r"valid.txt.clicks: no such file"),
        (("--clicks", "--propensities", "held.txt"), r"held.txt: not a file of propensities"),
        (("--clicks", "held.txt"), "one TRAIN"),
        (("--clicks", "--on-bad-line", "skip"), "--on-bad-line skip"),
        (("--clicks", "--objective", "lightgbm:rank_xendcg"), "lightgbm:rank_xendcg takes grades"),
    ],
)
def test_options_that_do_not_go_with_clicks_are_refused(
    words: tuple[str, ...], reason: str, folder: Path
) -> None:
    arguments = [folder / word if (folder / word).is_file() else word for word in words]
    result = refuse("train", folder / "train.txt", *arguments, "-m", folder / "no.txt", *FEW)
    assert re.search(reason, result.stderr)
    assert not (folder / "no.txt").exists()


def test_lists_that_never_varied_are_refused(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "held.txt"
    data.write_bytes((folder / "held.txt").read_bytes())
    simulate(data, folder / "logger.txt", spread=0.0)
    for words in (
        ("data", "propensities", f"{data}.clicks"),
        ("train", data, "--clicks", "-m", tmp_path / "m.txt", *FEW),
        ("compare", folder / "logger.txt", folder / "m.txt", data, "--clicks"),
    ):
        result = refuse(*words)
        assert "no clicked document" in result.stderr
    curve = ("--clicks", "--propensities", folder / "p.json")
    trained = succeed("train", data, *curve, "-m", tmp_path / "m.txt", *FEW)
    assert "cannot be checked" in trained.stderr
    assert "no gate: " in trained.stderr
    compared = refuse("compare", folder / "logger.txt", folder / "m.txt", data, *curve)
    measured = refuse(
        "train", folder / "train.txt", "--clicks", "--valid", data, "-m", tmp_path / "m.txt", *FEW
    )
    assert "held.txt.clicks: no clicked document" in measured.stderr
    assert "no better than chance" in compared.stderr


@pytest.mark.parametrize(("backend", "route"), [("lightgbm", "bins"), ("xgboost", "external")])
def test_streamed_rows_give_the_bytes_of_rows_in_memory(
    backend: str, route: str, folder: Path
) -> None:
    if backend == "xgboost":
        pytest.importorskip("xgboost")
    outcomes = []
    # The model's bytes and the quality that is printed, by both routes.
    for name in ("memory", route):
        model = folder / f"{backend}-{name}.txt"
        result = succeed(
            "train",
            folder / "train.txt",
            "--clicks",
            "--backend",
            backend,
            "--route",
            name,
            "--cache",
            "none",
            "--valid",
            folder / "held.txt",
            "-m",
            model,
            *FEW,
        )
        outcomes.append(
            (
                model.read_bytes(),
                re.findall("debiased against.*|^(?:train|held) .*$", result.stderr),
            )
        )
    assert outcomes[0] == outcomes[1]


def test_the_gate_of_streamed_rows_is_of_a_sample(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boostrank.fit.click_gate._SAMPLED_CELLS", 48_000)
    result = invoke(
        "train",
        folder / "train.txt",
        "--clicks",
        "--route",
        "bins",
        "--cache",
        "none",
        "-m",
        folder / "sampled.txt",
        *FEW,
    )
    assert re.search(
        r"held out in 5 turns, from a sample of \d+ queries, as the rows stay on disk",
        result.stderr,
    )


def test_few_queries_get_no_verdict_and_parameters_of_stopping_are_not_the_gates(
    folder: Path, tmp_path: Path
) -> None:
    few = (
        "".join((folder / "train.txt").read_text().splitlines(keepends=True)[:100]),
        tmp_path / "few.txt",
    )
    few[1].write_text(few[0])
    simulate(few[1], folder / "logger.txt", spread=2.0, impressions=100)
    stopping = ("--valid", folder / "held.txt", "--param", "early_stopping_round=2")
    for words, message in (
        ((few[1],), "are too few"),
        ((folder / "train.txt", *stopping), "exposure-DCG@10"),
    ):
        result = succeed("train", *words, "--clicks", "-m", tmp_path / "m.txt", *FEW)
        assert message in result.stderr


def test_click_counts_that_teach_nothing_do_not_end_a_training_by_exposure(tmp_path: Path) -> None:
    path = tmp_path / "n.txt"
    path.write_text(
        "".join(f"0 qid:{q} 1:{d / 3} 2:{q % 5}\n" for q in range(60) for d in range(3))
    )
    lines = [
        f"{3 * q + d + 1},{d + 1 + (q + d) % 2},{5 + 20 * d},1\n{3 * q + d + 1},4,{1 + d},0\n"
        for q in range(60)
        for d in range(3)
    ]
    Path(f"{path}.clicks").write_text(HEADER + "".join(lines))
    curve = tmp_path / "p.json"
    curve.write_text(json.dumps({"version": 1, "examination": [1.0, 0.8, 0.6, 0.5]}))
    result = succeed(
        "train", path, "--clicks", "--propensities", curve, "-m", tmp_path / "m.txt", *FEW
    )
    assert "no gate: " in result.stderr


def test_clicks_on_rows_that_do_not_exist_are_refused_by_line(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "few.txt"
    data.write_text("0 qid:1 1:1\n1 qid:1 1:2\n")
    Path(f"{data}.clicks").write_text(f"{HEADER}1,1,5,2\n3,1,5,2\n")
    result = refuse("train", data, "--clicks", "-m", tmp_path / "m.txt", *FEW)
    assert "few.txt.clicks:3: row is 3" in result.stderr


def test_a_report_by_clicks_and_a_section_on_them(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("altair", reason="the page's charts need the extra `report`")
    common = (
        "--only",
        "verdict",
        "--only",
        "clicks",
        "--baseline",
        folder / "logger.txt",
        "--json",
        "--threads",
        1,
    )
    by_clicks = succeed("report", folder / "m.txt", folder / "held.txt", *common, "--clicks")
    page = json.loads(by_clicks.stdout)
    compared = invoke(
        "compare",
        folder / "logger.txt",
        folder / "m.txt",
        folder / "held.txt",
        "--clicks",
        "--json",
    )
    d = json.loads(compared.stdout)["metrics"]["dcg@10"]
    assert page["verdict"]["metric"] == "dcg@10"
    assert "measured by clicks over exposure" in page["about"]
    values = {
        row["metric"]: row["value"] for row in reversed(page["verdict"]["verdict"])
    }  # the model is first
    assert values["dcg@10"] == pytest.approx(d["new"])
    lead = next(
        row["lead"]
        for row in page["verdict"]["verdict"]
        if row["metric"] == "dcg@10" and row["ranking"].endswith("logger.txt")
    )
    assert lead == pytest.approx(d["mean"])
    propensities = ("--clicks", "--propensities", folder / "p.json")
    result = invoke("report", folder / "m.txt", folder / "held.txt", *common, *propensities)
    assert json.loads(result.stdout)["clicks"]["origin"] == "given"
    (tmp_path / "held.txt").write_bytes((folder / "held.txt").read_bytes())
    (tmp_path / "held.txt.clicks").write_text(f"{HEADER}1,1,2,3\n")
    refused = refuse(
        "report", folder / "m.txt", tmp_path / "held.txt", *common[:2], "--clicks", "--json"
    )
    assert "held.txt.clicks:2: 3 clicks" in refused.stderr


def test_a_log_counts_the_rows_of_a_file_whose_queries_are_in_pieces(
    folder: Path, tmp_path: Path
) -> None:
    lines, log = (
        (folder / "held.txt").read_text().splitlines(),
        read_clicks(folder / "held.txt.clicks", 10**6),
    )
    order = np.random.default_rng(0).permutation(len(lines))  # of the rows in the file
    qid = [lines[row].split()[1] for row in order]
    together = [i for query in dict.fromkeys(qid) for i in range(len(qid)) if qid[i] == query]
    outcomes = []
    for name, rows, words in (
        ("scattered", order, ["--regroup"]),
        ("together", order[together], []),
    ):
        data = tmp_path / f"{name}.svm"
        model = tmp_path / f"{name}.txt"
        scores = tmp_path / f"{name}.old"
        data.write_text("".join(f"{lines[row]}\n" for row in rows))
        number = np.argsort(rows)
        entries = zip(number[log.rows] + 1, log.positions, log.impressions, log.clicks, strict=True)
        Path(f"{data}.clicks").write_text(
            HEADER + "".join("{},{},{},{}\n".format(*entry) for entry in entries)
        )
        np.savetxt(scores, rows % 7)
        common = (data, "--clicks", "--propensities", folder / "p.json", *words)
        trained = succeed("train", *common, "-m", model, *FEW)
        compared = invoke("compare", scores, model, *common, "--json")
        assert '"dcg@10"' in compared.stdout, compared.stderr
        reported = succeed(
            "report",
            model,
            *common,
            "--json",
            "--only",
            "clicks",
            "--baseline",
            scores,
            "--threads",
            1,
        )
        gate = re.findall(r"exposure-DCG.*", trained.stderr)
        assert gate
        texts = [
            *gate,
            *(re.sub(r'"row( |": )\d+', "row", result.stdout) for result in (compared, reported)),
        ]
        outcomes.append((model.read_bytes(), [text.replace(name, "") for text in texts]))
    assert outcomes[0][0] == outcomes[1][0]
    for text, other_text in zip(outcomes[0][1], outcomes[1][1], strict=True):
        assert text == other_text
