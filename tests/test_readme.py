"""What the README says can be typed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from boostrank.data.libsvm.writer import write_libsvm
from boostrank.data.synthetic import make_ranking_data

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """Small files under the names that the README uses."""
    path: Path = tmp_path_factory.mktemp("readme")
    for seed, name in enumerate(("train", "vali", "test", "new")):
        write_libsvm(path / f"{name}.txt", make_ranking_data(queries=40, seed=seed, mean_length=20).dataset)
    return path


def test_the_table_of_objectives_is_the_registrys() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "boostrank", "objectives", "--markdown"], capture_output=True, text=True, check=True
    )
    assert made.stdout.strip() in README


def test_every_name_of_boostrank_is_there_after_import_boostrank() -> None:
    names = sorted(set(re.findall(r"\bboostrank((?:\.[A-Za-z_]\w*)+)\b(?![/-])", README)))
    assert ".cluster.train" in names
    code = f"import boostrank, operator\nfor name in {names}: operator.attrgetter(name[1:])(boostrank)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_sixty_seconds_of_python_run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    exec(compile(blocks("python")[0], "README.md", "exec"), {})
    assert "ndcg@10" in capsys.readouterr().out
    assert (folder / "model.txt").exists()


def test_the_command_line_runs_as_written(folder: Path) -> None:
    (block,) = (b for b in blocks("") if "boostrank evaluate model.txt" in b)
    lines = block.replace("\\\n", " ").strip().splitlines()
    assert len(lines) == 4
    for line in lines:
        assert line.startswith("boostrank ")
        done = subprocess.run([sys.executable, "-m", *line.split()], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert (folder / "scores.txt").exists()


def test_the_file_tools_run_as_written(folder: Path) -> None:
    for name in ("web.txt.gz", "log.txt", "day1.txt"):
        write_libsvm(folder / name, make_ranking_data(queries=1100, seed=9, mean_length=2).dataset)
    text = (folder / "day1.txt").read_text()
    (folder / "day2.txt").write_text(text.replace("qid:", "qid:x"))
    (folder / "shards").mkdir()
    (block,) = (b for b in blocks("") if "boostrank split" in b)
    for line in block.strip().splitlines():
        command = shlex.split(line, comments=True)
        done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert {path.name for path in folder.glob("web-*")} == {f"web-{part}.txt.gz" for part in ("train", "valid", "test")}
    assert len(list((folder / "shards").iterdir())) == 16


def test_the_doctor_runs_as_written(folder: Path) -> None:
    (block,) = (b for b in blocks("") if "boostrank doctor" in b)
    done = subprocess.run([sys.executable, "-m", *block.split()], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "[shared-ids]" in done.stdout


def test_the_named_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`make ([a-z]+)`", README)):
        assert re.search(rf"^[\w ]*\b{target}\b[\w ]*:", makefile, re.MULTILINE), target
