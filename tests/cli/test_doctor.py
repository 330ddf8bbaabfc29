"""`boostrank doctor`: what it prints, and how it leaves."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, invoke, messages, refuse, succeed

HEADER = "row,position,impressions,clicks"

LAMBDARANK = ("--objective", "lambdarank", "--rounds", 1, "--threads", 1)


@pytest.fixture
def rows(data: Path) -> list[str]:
    return (data / "train.txt").read_text().splitlines(keepends=True)


def test_data_that_train_takes_leave_with_0(data: Path) -> None:
    done = succeed(
        "doctor", data / "train.txt", "--valid", data / "valid.txt", "--valid", data / "test.txt"
    )
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("0 errors, 0 warnings, ")
    assert all(line.startswith(("  ", "      ")) or ": note: " in line for line in lines[:-1])
    assert [line.split(":")[0] for line in messages(done)] == [
        str(data / name) for name in ("train.txt", "valid.txt", "test.txt")
    ]


def test_a_finding_names_place_cost_and_fix(rows: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("".join([*rows, rows[0]]))
    done = refuse("doctor", path)
    first, cost, *more = done.stdout.splitlines()
    assert first.startswith(
        f"{path}:{len(rows) + 1}: error: qid 0 reappears after another query; it was first seen on"
    )
    assert first.endswith("[split-queries]")
    assert cost.startswith("  cost: train refuses it")
    assert more[0].startswith("  fix: boostrank data sort")
    succeed("doctor", path, "--regroup")


def test_warnings_leave_with_1_when_that_is_asked_for(rows: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("".join(rows).rstrip("\n"))
    succeed("doctor", path)
    done = invoke("doctor", path, "--strict")
    assert done.exit_code == 1
    assert "no-final-newline" in done.stdout


def test_json_is_a_list_of_objects(rows: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("".join([*rows, "1 qid:500 1:NULL\n", "0 qid:500 1:2\n"]))
    done = refuse("doctor", path, "--json")
    findings = json.loads(done.stdout)
    message, cost = findings[0].pop("message"), findings[0].pop("cost")
    assert "'NULL'" in message
    assert cost
    assert findings[0] == {
        "check": "unreadable-row",
        "severity": "error",
        "file": str(path),
        "line": len(rows) + 1,
        "column": 11,
        "count": 1,
        "fix": "mend the rows: --missing-token NULL",
        "options": "--missing-token NULL",
    }
    assert {finding["severity"] for finding in findings[1:]} == {"note"}
    rest = json.loads(invoke("doctor", path, "--json", "--missing-token", "NULL").stdout)
    assert {finding["severity"] for finding in rest} == {"note"}


def test_what_train_refuses_the_doctor_calls_an_error(rows: list[str], tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    for damage in (
        [*rows, rows[0]],
        [*rows, "1 qid:500 1:NULL\n"],
        [*rows, "-1 qid:500 1:1\n"],
        [*rows, "40 qid:500 1:1\n"],
        [*rows, "1 qid:500 1:1 1:2\n"],
        ["1 " + row.split(" ", 1)[1] for row in rows],
        [],
    ):
        path.write_text("".join(damage))
        assert invoke("train", path, "--model", tmp_path / "m", *LAMBDARANK).exit_code in (2, 3)
        refuse("doctor", path)


def test_the_text_may_come_through_a_pipe(rows: list[str], tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("".join(rows))
    expected = invoke("doctor", tmp_path / "t.txt", "--json").stdout
    piped = subprocess.run(
        [*COMMAND, "doctor", "-", "--json"], input="".join(rows), capture_output=True, text=True
    )
    assert piped.returncode == 0
    assert piped.stdout == expected.replace(str(tmp_path / "t.txt"), "<stdin>")


def test_clicks_in_place_of_labels(rows: list[str], tmp_path: Path) -> None:
    """Labels of 0, which training by clicks does not look at, and a log with three faults."""
    path, valid = tmp_path / "t.txt", tmp_path / "v.txt"
    for file in (path, valid):
        file.write_text("".join(f"0 {row.split(' ', 1)[1]}" for row in rows))
    moved = [f"{row},{p},40,{20 // p}" for row in range(1, len(rows) + 1) for p in (1, 2)]
    Path(f"{path}.clicks").write_text(
        "\n".join([HEADER, *moved, "1,1,2,3", f"{len(rows) + 1},1,1,0", "1,5,3,0"]) + "\n"
    )
    done = refuse("doctor", path, "--clicks", "--json")
    findings = json.loads(done.stdout)
    by_check = {finding["check"]: finding for finding in findings}
    assert by_check["unreadable-clicks"]["file"] == f"{path}.clicks"
    assert by_check["unreadable-clicks"]["line"] in (len(moved) + 2, len(moved) + 3)
    assert not {"nothing-to-learn", "dead-queries"} & set(by_check)
    grave = ["error", "warning", "note"]
    assert [finding["severity"] for finding in findings] == sorted(
        (finding["severity"] for finding in findings), key=grave.index
    )
    plain = invoke("doctor", path)
    assert "[nothing-to-learn]" in plain.stdout
    # Validation data want their own log.
    done = invoke("doctor", path, "--clicks", "--valid", valid)
    assert f"{valid}: error: {valid}.clicks: no such file" in done.stdout
    Path(f"{path}.clicks").write_text("\n".join([HEADER, *moved]) + "\n")
    succeed("doctor", path, "--clicks")


def test_a_file_that_cannot_be_read_excuses_no_log_but_its_own(
    rows: list[str], tmp_path: Path
) -> None:
    path, valid = tmp_path / "t.txt", tmp_path / "v.txt"
    path.write_text("".join(rows))
    valid.write_text("".join([*rows, "1 qid:500 1:1 1:2\n"]))
    log = [f"{row},{p},40,{20 // p}" for row in range(1, len(rows) + 4) for p in (1, 2)]
    for file in (path, valid):
        Path(f"{file}.clicks").write_text("\n".join([HEADER, *log]) + "\n")
    findings = json.loads(invoke("doctor", path, "--clicks", "--valid", valid, "--json").stdout)
    assert [finding["file"] for finding in findings if finding["check"] == "unreadable-row"] == [
        str(valid)
    ]
    refused = {finding["file"] for finding in findings if finding["check"] == "unreadable-clicks"}
    assert refused == {f"{path}.clicks"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--regroup",), "--regroup"),
        (("--on-bad-line", "skip"), "--on-bad-line skip"),
        (("train.txt",), "one FILE"),
        (("--valid", "-"), "- is not a file"),
    ],
)
def test_what_does_not_go_with_clicks_is_refused(
    words: tuple[str, ...], reason: str, data: Path
) -> None:
    arguments = [data / word if word.endswith(".txt") else word for word in words]
    done = refuse("doctor", data / "train.txt", "--clicks", *arguments)
    assert reason in done.stderr
