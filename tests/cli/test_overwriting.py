"""No command writes over what it reads, under whatever name, and none writes two things into one
file (fault 104).
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from boostrank.cli import commands
from boostrank.cli.command import Command, File
from boostrank.core.errors import InputError
from boostrank.core.files import SIDECARS, check_not_read
from boostrank.files.side_files import GROUP_SUFFIXES, WEIGHT_SUFFIX
from boostrank.model.files import sidecar_path
from tests.cli.conftest import refuse

# Nothing is lost; and OUT of split and shard is no file, but what files are named after.
REPLACEABLE = {
    ("train", "init_model"),
    ("calibrate", "model"),
    ("refit", "model"),
    ("data sort", "files"),
    ("data split", "files"),
    ("data shard", "files"),
}
ROWS = b"1 qid:1 1:2\n0 qid:1 1:1\n1 qid:2 1:2\n0 qid:2 1:1\n1 qid:3 1:2\n0 qid:3 1:1\n"


def pairs() -> Iterator[tuple[str, str, str]]:
    """(command, parameter of a file that is read, parameter of one that is written), of all
    commands.
    """
    for name, command in commands().items():
        assert isinstance(command, Command), "every command looks"
        typed = {p.name: p.type.kind for p in command.params if isinstance(p.type, File)}
        read = [
            parameter for parameter, kind in typed.items() if kind in ("read", "data", "either")
        ]
        written = [
            parameter
            for parameter, kind in typed.items()
            if kind in ("write", "page", "output", "stream")
        ]
        untyped = {p.name for p in command.params if "FILE" in (p.metavar or "")} - {*typed}
        assert not (untyped and written), f"{name}: {untyped} are files, and not compared"
        yield from (
            (name, parameter, other)
            for parameter in read
            for other in written
            if (name, parameter) not in REPLACEABLE
        )


def under_another_name(file: Path, how: str) -> Path:
    if how == "same":
        return file.parent / "." / file.name
    link = file.with_name(f"{how}-{file.name}")
    (os.link if how == "hard link" else os.symlink)(file, link)
    return link


@pytest.mark.parametrize("how", ["same", "link", "hard link"])
@pytest.mark.parametrize(("command", "read", "written"), list(pairs()))
def test_fault_104_no_command_writes_over_what_it_reads(
    command: str, read: str, written: str, how: str, tmp_path: Path
) -> None:
    file = tmp_path / "precious"
    file.write_bytes(ROWS)
    context = click.Context(commands()[command])
    context.params = {read: str(file), written: str(under_another_name(file, how))}
    with pytest.raises(InputError, match="would be overwritten"):
        context.command.invoke(context)


@pytest.mark.parametrize(
    "words",
    [
        ("data", "sample", "g.txt", "-o", "g.txt", "--queries", "1"),
        ("data", "split", "g-a.txt", "-o", "g.txt", "--parts", "a=0.5,b=0.5"),
        ("data", "shard", "*.txt", "-o", "g.txt", "--parts", "1"),
        ("train", "g.txt", "-m", "g.txt.weight"),
        ("train", "g.txt", "-m", "m.txt", "--log", "m.txt"),
        ("train", "g.txt", "-m", "m.txt", "--log", "m.txt.meta.json"),
        ("train", "g.txt", "-m", "m.txt", "--log", ".m.txt.lock"),
        ("train", "g.txt", "-m", "m.txt", "--checkpoint-every", "1", "--log", "m.txt.checkpoint"),
        ("train", "g.txt", "-m", "g-a.txt", "--feature-names", "g-a.txt"),
        ("train", "g.txt", "-m", "my.py", "--objective", "my.py"),
        ("train", "g.txt.gz", "-m", "g.txt.weight"),
    ],
)
def test_fault_104_names_that_commands_make_up_count_too(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("g.txt", "g-a.txt", "g-000.txt"):
        Path(name).write_bytes(ROWS.replace(b"qid:", b"qid:%d" % len(name)))
    Path("my.py").write_text("SPEC = None")
    Path("g.txt.gz").write_bytes(gzip.compress(ROWS))
    if "train" in words:
        Path("g.txt.weight").write_bytes(b"1\n1\n1\n")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    result = refuse(*words)
    reasons = ("would be overwritten", "choose another file", "different files", "written twice")
    assert any(why in result.stderr for why in reasons)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_what_is_read_beside_a_file_is_all_that_is_read_beside_files() -> None:
    assert set(SIDECARS) == {*GROUP_SUFFIXES, WEIGHT_SUFFIX, sidecar_path("").name}


def test_a_device_overwrites_nothing() -> None:
    check_not_read("/dev/null", ["/dev/null"])


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_fault_105_weights_that_cannot_be_read_are_not_taken_for_none(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "t.txt").write_bytes(ROWS)
    weights = tmp_path / "t.txt.weight"
    if kind == "link":
        weights.symlink_to(tmp_path / "nowhere")
    elif kind == "folder":
        weights.mkdir()
    else:
        os.mkfifo(weights)
    result = refuse("train", tmp_path / "t.txt", "-m", tmp_path / "m")
    assert str(weights) in result.stderr


def test_fault_106_a_blank_scheduler_is_no_training_on_one_machine(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(ROWS)
    result = refuse("train", tmp_path / "t.txt", "-m", tmp_path / "m", "--cluster", "")
    assert "blank" in result.stderr
