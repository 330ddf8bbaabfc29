"""Logs by segment: each segment's entries are looked at by its own curve."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from boostrank.clicks.estimation import check, check_curve, estimate, estimate_propensities
from boostrank.clicks.files import read_clicks, write_clicks
from boostrank.clicks.gate import moved_share
from boostrank.clicks.log import ClickLog
from boostrank.clicks.propensities import Propensities, SegmentPropensities, read_propensities
from boostrank.clicks.sessions import SessionColumns, count_clicks
from boostrank.core.errors import DataError, DataWarning, FileFormatError
from boostrank.core.queries import QueryIndex
from boostrank.data.dataset import RankingDataset
from tests.cli.conftest import FEW, invoke, sidecar

LOG = ClickLog(
    [0, 0, 0, 2, 0, 3], [1, 2, 1, 1, 1, 2], [4, 5, 6, 7, 1, 9], [1, 1, 2, 2, 1, 0], 4, [1, 1, 0, 0, 1, 1],
    ("phone", "big screen"),
)  # fmt: skip
CURVES = SegmentPropensities({"phone": Propensities([1.0, 0.25]), "big screen": Propensities([1.0, 0.5], [0.0, 0.1])})


def entries(log: ClickLog) -> list[tuple[int | str, ...]]:
    names = [""] * log.rows.size if log.segments is None else [log.segment_names[i] for i in log.segments]
    columns = (log.rows, log.positions, log.impressions, log.clicks)
    return sorted(zip(*(column.tolist() for column in columns), names, strict=True))


def test_entries_are_added_up_by_segment() -> None:
    assert entries(LOG) == [
        (0, 1, 5, 2, "big screen"), (0, 1, 6, 2, "phone"), (0, 2, 5, 1, "big screen"), (2, 1, 7, 2, "phone"),
        (3, 2, 9, 0, "big screen"),
    ]  # fmt: skip
    assert entries(LOG.pooled()) == [(0, 1, 11, 4, ""), (0, 2, 5, 1, ""), (2, 1, 7, 2, ""), (3, 2, 9, 0, "")]
    assert entries(LOG.of_segment("phone")) == [(0, 1, 6, 2, ""), (2, 1, 7, 2, "")]
    assert entries(LOG.renumbered(np.array([3, 2, 1, 0]))) == sorted((3 - row, *rest) for row, *rest in entries(LOG))
    assert "segments big screen, phone" in repr(LOG)
    assert moved_share(LOG) == 0.5  # at two positions, not in two segments
    with pytest.raises(DataError, match="no segment 'tablet': it has big screen, phone"):
        LOG.of_segment("tablet")
    with pytest.raises(DataError, match="an index below 1"):
        ClickLog([0], [1], [1], [0], 1, [1], ("phone",))


def test_exposure_is_the_sum_over_segments() -> None:
    np.testing.assert_allclose(LOG.exposure(CURVES), [5 + 6 + 2.5, 0, 7, 4.5])
    np.testing.assert_allclose(LOG.gains(CURVES, 1.0), [(5 - 0.5) / 14.5, np.nan, 2 / 8, 0.0])
    parts = sum(LOG.of_segment(name).exposure(curve) for name, curve in CURVES.curves.items())
    np.testing.assert_allclose(LOG.exposure(CURVES), parts)
    np.testing.assert_allclose(LOG.exposure(Propensities([1.0, 0.5])), LOG.pooled().exposure(Propensities([1.0, 0.5])))
    with pytest.warns(DataWarning, match="14 of 32 impressions are ignored: .*from 2"):
        short = LOG.exposure(SegmentPropensities(dict.fromkeys(LOG.segment_names, Propensities([1.0]))))
    np.testing.assert_allclose(short, [11, 0, 7, 0])
    with pytest.raises(DataError, match="no propensities for segment 'phone'"):
        LOG.gains(SegmentPropensities({"big screen": Propensities([1.0])}))
    with pytest.raises(DataError, match="by segment, but the click log has none"):
        LOG.pooled().gains(CURVES)


def test_some_queries_keep_their_segments() -> None:
    data = RankingDataset.from_arrays(np.zeros((4, 1)), np.zeros(4), qid=[1, 1, 2, 2])
    _, log = LOG.of_queries(data, [1])
    assert entries(log) == [(0, 1, 7, 2, "phone"), (1, 2, 9, 0, "big screen")]


@pytest.mark.parametrize("long", [False, True])
def test_a_file_gives_back_segments_of_any_name(long: bool, tmp_path: Path) -> None:
    names = ('grün, # 5 "%41"', "x" * (100 if long else 3))
    log = ClickLog(LOG.rows, LOG.positions, LOG.impressions, LOG.clicks, 4, LOG.segments, names)
    write_clicks(tmp_path / "log", log)
    assert (tmp_path / "log").read_text().startswith('row,position,impressions,clicks,segment\n1,1,5,2,"grün, # 5 ')
    assert entries(read_clicks(tmp_path / "log", 4)) == entries(log)
    body = (tmp_path / "log").read_text()
    for line, words in (("1,1,2,1", ""), ("1,1,2,1,", "segment is missing"), ("1,1,1,2,a", "2 clicks of 1")):
        (tmp_path / "bad").write_text(f"{body}{line}\n")
        with pytest.raises(FileFormatError, match=rf"bad:7: .*{words}"):
            read_clicks(tmp_path / "bad", 4)
    for name in ("", "a\nb"):
        with pytest.raises(DataError, match="cannot be written"):
            write_clicks(tmp_path / "log", ClickLog([0], [1], [1], [0], 1, [0], (name,)))


@pytest.mark.parametrize("name", ["phone\0", "a\0b", "\ud800"])
def test_a_name_that_no_file_gives_back_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the segment name .* contains NUL or half a character"):
        ClickLog([0], [1], [1], [0], 1, [0], (name,))
    if "\0" in name:
        pd.DataFrame({"row": [1, 1], "position": 1, "clicked": 0, "d": ["a", name]}).to_parquet(tmp_path / "s.parquet")
        with pytest.raises(FileFormatError, match=r"s\.parquet: row 2.*contains NUL"):
            count_clicks([tmp_path / "s.parquet"], SessionColumns(by="d"))


@pytest.mark.parametrize("word", [b"phone\0", b"a\0b", b"a\xfe"])
def test_a_segment_that_is_no_text_is_refused_with_its_line(word: bytes, tmp_path: Path) -> None:
    head = b"row,position,impressions,clicks,segment\n1,1,5,2,phone\n1,1,5,2,"
    (tmp_path / "log").write_bytes(head + word + b"\n")
    with pytest.raises(FileFormatError, match=r"log:3: "):
        read_clicks(tmp_path / "log")


def test_curves_are_written_and_read(tmp_path: Path) -> None:
    CURVES.write(tmp_path / "p.json")
    found = read_propensities(tmp_path / "p.json")
    assert isinstance(found, SegmentPropensities)
    assert found.to_dict() == CURVES.to_dict()
    Propensities([1.0, 0.5]).write(tmp_path / "one.json")
    assert isinstance(read_propensities(tmp_path / "one.json"), Propensities)
    for content in ('{"version": 1, "segments": {}}', '{"version": 2, "segments": {"a": {}}}', '{"segments": 3}',
                    '{"version": 1, "segments": {"a": {"version": 1}}}', "[", "[1]",
                    '{"version": true, "segments": {"a": {"version": 1, "examination": [1]}}}'):  # fmt: skip
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(FileFormatError, match="not a file of propensities"):
            read_propensities(tmp_path / "bad.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data.txt; sessions.csv of phones, where attention falls by p^-2, and desktops, p^-0.5; its log by device."""
    folder = tmp_path_factory.mktemp("segments")
    rng = np.random.default_rng(1)
    queries, documents = 120, 5
    X = rng.random((queries * documents, 3))
    qid = np.repeat(np.arange(queries), documents)
    (folder / "data.txt").write_text(
        "".join(f"0 qid:{q} 1:{a:.4f} 2:{b:.4f} 3:{c:.4f}\n" for q, (a, b, c) in zip(qid, X, strict=True))
    )
    parts = []
    for device, eta in (("phone", 2.0), ("desktop", 0.5)):
        for q in range(queries):
            for _ in range(30):
                order = rng.permutation(documents)
                row = q * documents + order
                looked = rng.random(documents) < np.arange(1.0, documents + 1) ** -eta
                parts.append(pd.DataFrame({
                    "row": row + 1, "position": np.arange(1, documents + 1), "device": device,
                    "clicked": (looked & (rng.random(documents) < 0.1 + 0.8 * X[row, 0])).astype(int),
                }))  # fmt: skip
    pd.concat(parts).to_csv(folder / "sessions.csv", index=False)
    result = invoke("data", "count-clicks", folder / "sessions.csv", "-o", folder / "data.txt.clicks", "--by", "device")
    assert result.exit_code == 0, result.stderr
    return folder


def test_the_log_by_segment_is_that_of_each(folder: Path, tmp_path: Path) -> None:
    log = read_clicks(folder / "data.txt.clicks", 600)
    assert log.segment_names == ("desktop", "phone")
    for name in log.segment_names:
        sessions = pd.read_csv(folder / "sessions.csv")
        sessions[sessions["device"] == name].to_csv(tmp_path / "alone.csv", index=False)
        assert entries(log.of_segment(name)) == entries(count_clicks([tmp_path / "alone.csv"]))


def test_each_segment_has_its_own_curve(folder: Path) -> None:
    log = read_clicks(folder / "data.txt.clicks", 600)
    found = estimate(log)
    assert isinstance(found, SegmentPropensities)
    for name, eta in (("phone", 2.0), ("desktop", 0.5)):
        np.testing.assert_allclose(np.log(found.curves[name].examination), -eta * np.log(np.arange(1, 6)), atol=0.3)
        np.testing.assert_array_equal(
            found.curves[name].examination, estimate_propensities(log.of_segment(name)).examination
        )
    assert check(log, found).p > 0.99
    swapped = SegmentPropensities({"phone": found.curves["desktop"], "desktop": found.curves["phone"]})
    assert check(log, swapped).p < 1e-6
    pooled = estimate_propensities(log)
    assert check(log, pooled).nats == check_curve(log, pooled).nats == pytest.approx(0.0, abs=1e-9)


def test_a_segment_that_never_moved_has_the_curve_of_all(folder: Path) -> None:
    log = read_clicks(folder / "data.txt.clicks", 600)
    more = ClickLog(*(np.append(getattr(log, name), one) for name, one in
                      (("rows", 0), ("positions", 2), ("impressions", 9), ("clicks", 1))), 600,
                    np.append(log.segments, 2), (*log.segment_names, "tablet"))  # fmt: skip
    with pytest.warns(DataWarning, match="segment tablet: no clicked document moved"):
        found = estimate(more)
    assert isinstance(found, SegmentPropensities)
    np.testing.assert_array_equal(found.curves["tablet"].examination, estimate_propensities(more).examination)
    assert (found.curves["tablet"].moved, found.curves["tablet"].method) == (0, "curve of all segments together")
    alone = ClickLog([0], [1], [5], [2], 1, [0], ("tablet",))
    with pytest.raises(DataError, match="no clicked document was shown"):
        estimate(alone)


def test_the_commands_go_by_each_segments_curve(folder: Path, tmp_path: Path) -> None:
    clicks, curves = folder / "data.txt.clicks", tmp_path / "p.json"
    result = invoke("data", "propensities", clicks, "-o", curves)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"segment desktop, from \d+ documents that moved\n +position", result.stdout)
    assert "that were shown at several positions" not in result.stderr  # segments have documents in common
    found = json.loads(curves.read_text())["segments"]
    assert found["phone"]["examination"][4] < 0.1 < 0.3 < found["desktop"]["examination"][4]
    checked = invoke("data", "propensities", clicks, "--check", curves)
    assert "p.json: clicks do not contradict it" in checked.stdout
    trained = invoke("train", folder / "data.txt", "--clicks", "--propensities", curves, "-m", tmp_path / "m.txt", *FEW)
    assert trained.exit_code == 0, trained.stderr
    assert "by propensities of their own: exposure-DCG@10" in trained.stderr
    how = sidecar(tmp_path / "m.txt")["data"]["reader"]["clicks"]  # type: ignore[index]
    assert how["propensities"]["segments"].keys() == {"phone", "desktop"}
    estimated = invoke("train", folder / "data.txt", "--clicks", "-m", tmp_path / "e.txt", *FEW)
    assert "desktop: Propensities(1, " in estimated.stderr
    count = {name: one["moved"] for name, one in found.items()}
    assert f"moved, {count['desktop']:,} of segment desktop, {count['phone']:,} of segment phone: " in estimated.stderr
    assert (tmp_path / "m.txt").read_bytes() == (tmp_path / "e.txt").read_bytes()
    compared = invoke("compare", tmp_path / "m.txt", tmp_path / "e.txt", folder / "data.txt", "--clicks",
                      "--propensities", curves, "--json")  # fmt: skip
    assert compared.exit_code == 0, compared.stderr
    log, data = read_clicks(clicks, 600), RankingDataset.read(folder / "data.txt")
    train_set = log.training_set(data, read_propensities(curves))
    assert train_set.labels.tolist() == log.gains(read_propensities(curves)).tolist()
    write_clicks(tmp_path / "pooled.clicks", log.pooled())
    refused = invoke("data", "propensities", tmp_path / "pooled.clicks", "--check", curves)
    assert refused.exit_code == 2
    assert "by segment, but the click log has none" in refused.stderr


def test_the_page_and_the_comparison_go_by_the_same_curves(folder: Path, tmp_path: Path) -> None:
    for module in ("altair", "vl_convert"):
        pytest.importorskip(module, reason="the page's charts need the extra `report`")
    data, curves = folder / "data.txt", tmp_path / "p.json"
    models = [tmp_path / name for name in ("new.txt", "old.txt")]
    for model, words in zip(models, ((), ("--rounds", 1)), strict=True):
        assert invoke("train", data, "--clicks", "-m", model, *FEW, *words).exit_code == 0
    e = {"phone": [1.0, 0.25, 0.1, 0.06, 0.04], "desktop": [1.0, 0.7, 0.6, 0.5, 0.45]}
    SegmentPropensities({name: Propensities(one) for name, one in e.items()}).write(curves)
    exposure, clicks = np.zeros((2, 600))
    for row, p, n, c, name in entries(read_clicks(folder / "data.txt.clicks", 600)):
        exposure[row] += n * e[name][p - 1]  # type: ignore[index, operator]
        clicks[row] += c
    words = (data, "--clicks", "--propensities", curves, "--threads", 1)
    done = invoke("report", models[0], *words, "--baseline", models[1], "--only", "verdict", "--only", "clicks",
                  "--json", "-o", tmp_path / "page.html")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)["clicks"]
    assert told["origin"] == "given"
    assert told["check"]["p"] == pytest.approx(check(read_clicks(folder / "data.txt.clicks", 600),
                                                     read_propensities(curves)).p, rel=0.5)  # fmt: skip
    for one in told["exposure"]:
        assert one["documents"] == sum(one["begin"] <= x < one["end"] for x in exposure)
    for one in told["moves"]:
        row = int(one["document"].removeprefix("row ")) - 1
        assert one["exposure"] == pytest.approx(exposure[row])
    assert {(one["segment"], one["position"]): one["propensity"] for one in told["positions"]} == {
        (name, p): value for name, of_it in e.items() for p, value in enumerate(of_it, start=1)
    }
    gains, gate = clicks / exposure, told["against"]["gate"]
    scores = [np.array(invoke("predict", model, data).stdout.split(), float) for model in models]
    for name, one in zip(("new", "old"), scores, strict=True):
        values = []
        for a in range(0, 600, 5):
            tied = np.array([gains[a : a + 5][one[a : a + 5] == s].mean() for s in one[a : a + 5]])
            values.append(tied[np.argsort(-one[a : a + 5], kind="stable")] @ (1.0 / np.log2(np.arange(2, 7))))
        assert gate[name] == pytest.approx(np.mean(values))
    compared = invoke("compare", models[1], models[0], *words, "--metric", "dcg@10", "--json")
    found = json.loads(compared.stdout)["metrics"]["dcg@10"]
    assert [gate["difference"][name] for name in ("mean", "low", "high")] == pytest.approx(
        [found[name] for name in ("mean", "low", "high")]
    )
    page = (tmp_path / "page.html").read_text()
    assert "propensities of its segment" in page
    assert "desktop, given" in page
    # A model that was trained with curves by segment has the section without --clicks.
    beside = invoke("report", models[0], data, "--only", "clicks", "--json", "--threads", 1)
    assert beside.exit_code == 0, beside.stderr
    assert json.loads(beside.stdout)["clicks"]["origin"] == "log"
    assert "desktop" in {one["segment"] for one in json.loads(beside.stdout)["clicks"]["positions"]}


def test_curves_that_no_segment_can_check_are_refused_with_the_reason() -> None:
    alike = ClickLog([0, 1], [1, 1], [4, 5], [1, 1], 2, [0, 1], ("phone", "big screen"))
    with pytest.raises(DataError, match="no clicked document was shown both at position 1 and elsewhere"):
        check(alike, CURVES, QueryIndex.from_sizes([1, 1]))
