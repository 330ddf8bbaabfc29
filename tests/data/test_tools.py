"""Split, sample, shard and sort: no line is lost or changed, and no query is cut."""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boostrank.core.errors import (
    DataError,
    DataWarning,
    FileFormatError,
    InputError,
    ParameterError,
    TrainingError,
)
from boostrank.files import pieces as _queries
from boostrank.files import tools
from boostrank.files.assemble import read_files as read_libsvm
from boostrank.files.pieces import Output
from tests.data.conftest import refused, same_data

pytestmark = pytest.mark.filterwarnings("ignore::boostrank.core.errors.DataWarning")


Tool = Callable[..., object]


def make_queries(count: int = 40, seed: int = 0) -> list[str]:
    """The lines of each query, with all that a file may hold: comments, blank lines, CRLF, tabs,
    text ids.
    """
    rng = random.Random(seed)
    queries = []
    for q in range(count):
        qid = rng.choice([f"{q}", f"q{q}", f"é{q}", f"-{q + 1}"])
        lines = [f"# query {q} 1:2 qid:9\n"] if rng.random() < 0.3 else []
        for _ in range(rng.choice([1, 2, 3, 10])):
            tail = rng.choice(["\n", "\r\n", " \n", "\n\n", " # qid:7 x\n", "\n#\n", " 1:x\n"])
            lines.append(
                f"{rng.choice(['', ' '])}{rng.randrange(5)}{rng.choice([' ', '  ', chr(9)])}qid:{qid}"
                f" 1:{rng.random()} 7:{rng.randrange(9)}{tail}"
            )
        queries.append("".join(lines))
    return queries


QUERIES = make_queries()
TEXT = "".join(QUERIES).encode()


def lines_of(*paths: Path) -> Counter[bytes]:
    return Counter(line for path in paths for line in path.read_bytes().splitlines(keepends=True))


def rows_of(text: bytes) -> list[bytes]:
    """The rows alone, without comments, blank lines and line ends."""
    return [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith(b"#")
    ]


def qids(text: bytes) -> list[str]:
    """The query ids in order, each once as long as its rows follow each other."""
    ids = [row.split()[1].decode() for row in rows_of(text)]
    return [qid for i, qid in enumerate(ids) if i == 0 or ids[i - 1] != qid]


def reordered(queries: list[str], seed: int = 1) -> bytes:
    """The same queries in another order."""
    return "".join(random.Random(seed).sample(queries, len(queries))).encode()


def run(name: str, source: object, output: Path, **options: object) -> list[Path]:
    """Call a tool with some options; the files that it wrote."""
    arguments: dict[str, dict[str, object]] = {
        "split": {"parts": {"a": 0.5, "b": 0.3, "c": 0.2}},
        "shard": {"shards": 3},
        "sample": {"queries": 9},
        "sort": {},
    }
    written = getattr(tools, name)(source, str(output), **(arguments[name] | options))
    return [Path(part.path) for part in (written if isinstance(written, list) else [written])]


TOOLS = ["split", "shard", "sample", "sort"]


@pytest.fixture(params=[29, 400, 1 << 22])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of this size."""
    monkeypatch.setattr(_queries, "CHUNK_BYTES", request.param)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_bytes(TEXT)
    return path


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("name", ["split", "shard", "sort"])
def test_every_line_comes_out_once_and_no_query_is_cut(
    name: str, source: Path, tmp_path: Path
) -> None:
    paths = run(name, source, tmp_path / "out.txt")
    assert lines_of(*paths) == lines_of(source)
    seen = [qid for path in paths for qid in qids(path.read_bytes())]
    assert sorted(seen) == sorted(qids(TEXT))
    order = {qid: i for i, qid in enumerate(qids(TEXT))}
    for path in paths:
        places = [order[qid] for qid in qids(path.read_bytes())]
        assert places == sorted(places)


@pytest.mark.usefixtures("chunks")
def test_comments_and_blank_lines_stay_with_the_row_that_follows(tmp_path: Path) -> None:
    text = "# head\n\n1 qid:1 1:1\n# of 1\n0 qid:1 1:2\n# of 2\n\n2 qid:2 1:1\n# tail\n"
    (tmp_path / "in").write_text(text)
    first, second = run("shard", tmp_path / "in", tmp_path / "out-{}", shards=2)
    assert first.read_text() + second.read_text() == text
    assert second.read_text() == "# of 2\n\n2 qid:2 1:1\n# tail\n"


@pytest.mark.parametrize(
    "comment", ["# Column indices are zero-based\n", "# f0: price\n# f1: age\n# f2: clicks\n"]
)
@pytest.mark.parametrize("name", TOOLS)
def test_comments_that_number_or_name_features_are_in_each_output(
    name: str, comment: str, tmp_path: Path
) -> None:
    rows = [f"{i % 3} qid:{i // 2} 1:{i} 2:{i % 3}\n" for i in range(60)]
    (tmp_path / "in").write_text(f"# by hand\n{comment}\n{''.join(rows)}")
    names = read_libsvm([tmp_path / "in"]).feature_names
    for path in run(name, tmp_path / "in", tmp_path / "out.txt"):
        assert read_libsvm([path]).feature_names == names
        assert path.read_text().count(comment) == 1


def test_an_output_that_begins_with_a_later_file_names_its_features_once(tmp_path: Path) -> None:
    names = "# f1: price\n# f2: age\n"
    paths = [tmp_path / "1", tmp_path / "2"]
    for number, path in enumerate(paths):
        path.write_text(names + "".join(f"1 qid:{number}{i} 1:1 2:{i}\n" for i in range(4)))
    for written in tools.shard(paths, str(tmp_path / "part-{}"), 8):
        text = Path(written.path).read_text()
        assert text.startswith(names)
        assert text.count(names) == 1
        assert read_libsvm([written.path]).feature_names == ("price", "age")


@pytest.mark.parametrize("name", TOOLS)
def test_a_pipe_and_compressed_files_give_what_the_plain_file_gives(
    name: str, source: Path, tmp_path: Path
) -> None:
    expected = [path.read_bytes() for path in run(name, source, tmp_path / "plain.txt")]
    (tmp_path / "packed").write_bytes(gzip.compress(TEXT))
    assert [
        p.read_bytes() for p in run(name, tmp_path / "packed", tmp_path / "unpacked.txt")
    ] == expected
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    if name == "sample":  # a number of queries needs two readings
        with pytest.raises(ParameterError, match="save the stream"):
            run(name, fifo, tmp_path / "piped.txt")
        return
    writer = threading.Thread(target=fifo.write_bytes, args=(TEXT,))
    writer.start()
    assert [path.read_bytes() for path in run(name, fifo, tmp_path / "piped.txt")] == expected
    writer.join()


@pytest.mark.parametrize("name", TOOLS)
def test_outputs_are_compressed_as_their_names_say(name: str, source: Path, tmp_path: Path) -> None:
    expected = [path.read_bytes() for path in run(name, source, tmp_path / "plain.txt")]
    packed = run(name, source, tmp_path / "out.txt.gz")
    assert [gzip.decompress(path.read_bytes()) for path in packed] == expected
    before = [path.read_bytes() for path in packed]
    assert [path.read_bytes() for path in run(name, source, tmp_path / "out.txt.gz")] == before


@pytest.mark.parametrize("name", TOOLS)
def test_several_files_are_one_data_set(name: str, source: Path, tmp_path: Path) -> None:
    expected = [path.read_bytes() for path in run(name, source, tmp_path / "plain.txt")]
    for i in range(4):
        (tmp_path / f"part{i}").write_text(
            "".join(QUERIES[i * 10 : i * 10 + 10]).removesuffix("\n")
        )
    parts = run(name, tmp_path / "part*", tmp_path / "parts.txt")
    assert [rows_of(path.read_bytes()) for path in parts] == [rows_of(text) for text in expected]


@pytest.mark.parametrize("name", TOOLS)
def test_a_last_line_without_newline_gets_one_with_a_word(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text(
        "\ufeff1 qid:1 1:1\n" + "".join(f"0 qid:{i} 1:{i}\n" for i in range(2, 30)) + "1 qid:x"
    )
    with pytest.warns(DataWarning, match="no newline"):
        paths = run(name, tmp_path / "in", tmp_path / "out")
    assert all(path.read_bytes().endswith(b"\n") for path in paths)
    assert all(b"\xef\xbb\xbf" not in path.read_bytes() for path in paths)


def test_a_split_does_not_depend_on_the_order_or_on_what_else_is_there(
    source: Path, tmp_path: Path
) -> None:
    parts = [set(qids(path.read_bytes())) for path in run("split", source, tmp_path / "one.txt")]
    more = make_queries(100, seed=3)[40:]
    (tmp_path / "two").write_bytes(reordered(QUERIES + more))
    later = [
        set(qids(path.read_bytes()))
        for path in run("split", tmp_path / "two", tmp_path / "two.txt")
    ]
    assert all(before <= after for before, after in zip(parts, later, strict=True))
    assert [
        set(qids(p.read_bytes())) for p in run("split", source, tmp_path / "s.txt", seed=1)
    ] != parts


def test_a_split_has_about_the_shares_that_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("".join(f"1 qid:{i} 1:1\n" for i in range(20_000)))
    written = tools.split(
        tmp_path / "in", str(tmp_path / "out"), {"train": 0.8, "valid": 0.15, "test": 0.05}
    )
    for part, share in zip(written, (0.8, 0.15, 0.05), strict=True):
        assert abs(part.queries / 20_000 - share) < 4 * (share * (1 - share) / 20_000) ** 0.5
    assert sum(part.rows for part in written) == 20_000


def test_shards_differ_by_no_more_than_one_query(source: Path, tmp_path: Path) -> None:
    for shards in (1, 2, 7):
        written = tools.shard(source, str(tmp_path / "s-{}.txt"), shards)
        assert [part.path for part in written] == [
            str(tmp_path / f"s-{i:03}.txt") for i in range(shards)
        ]
        counts = [part.queries for part in written]
        assert max(counts) - min(counts) <= 1
        assert sum(part.queries for part in written) == len(QUERIES)


@pytest.mark.usefixtures("chunks")
def test_a_sample_has_as_many_whole_queries_as_asked_for(source: Path, tmp_path: Path) -> None:
    before: set[str] = set()
    for count in (1, 5, 17, 40):
        written = tools.sample(source, str(tmp_path / "out"), queries=count, seed=4)
        text = (tmp_path / "out").read_bytes()
        assert written == tools.Written(str(tmp_path / "out"), len(rows_of(text)), count)
        chosen = qids(text)
        assert len(chosen) == count
        assert before < set(chosen)
        assert written == tools.sample(source, written.path, queries=np.int64(count), seed=4)
        assert rows_of(text) == [row for row in rows_of(TEXT) if row.split()[1].decode() in chosen]
        before = set(chosen)


def test_a_sample_does_not_depend_on_the_order(source: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(reordered(QUERIES))
    for options in ({"queries": 9}, {"queries": 0.4}):
        (sample,) = run("sample", source, tmp_path / "one", **options)
        (reordered_sample,) = run("sample", tmp_path / "other", tmp_path / "two", **options)
        assert sorted(qids(sample.read_bytes())) == sorted(qids(reordered_sample.read_bytes()))
        (reseeded_sample,) = run("sample", source, tmp_path / "three", seed=8, **options)
        assert qids(reseeded_sample.read_bytes()) != qids(sample.read_bytes())


def test_a_sample_is_not_a_subset_of_the_first_part_of_a_split(
    source: Path, tmp_path: Path
) -> None:
    parts = [set(qids(path.read_bytes())) for path in run("split", source, tmp_path / "p.txt")]
    (path,) = run("sample", source, tmp_path / "s", queries=20)
    assert all(part & set(qids(path.read_bytes())) for part in parts)


@pytest.mark.usefixtures("chunks")
def test_sorting_brings_rows_together_stably(tmp_path: Path) -> None:
    rng = random.Random(2)
    rows = [(rng.choice("abcdefgh"), i) for i in range(200)]
    (tmp_path / "in").write_text("".join(f"{i % 5} qid:{q} 1:{i}\n" for q, i in rows))
    tools.sort(tmp_path / "in", str(tmp_path / "out"))
    firsts = {q: min(i for p, i in rows if p == q) for q, _ in rows}
    expected = sorted(rows, key=lambda row: (firsts[row[0]], row[1]))
    assert (tmp_path / "out").read_text() == "".join(
        f"{i % 5} qid:{q} 1:{i}\n" for q, i in expected
    )
    assert same_data(read_libsvm(tmp_path / "out"), read_libsvm(tmp_path / "in", regroup=True))


def test_sorting_joins_queries_that_go_on_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 qid:1 1:1\n2 qid:2 1:1\n")
    (tmp_path / "b").write_text("3 qid:2 1:1\n4 qid:1 1:1")
    written = tools.sort([tmp_path / "a", tmp_path / "b"], str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "1 qid:1 1:1\n4 qid:1 1:1\n2 qid:2 1:1\n3 qid:2 1:1\n"
    assert (written.rows, written.queries) == (4, 2)


def test_sorting_may_replace_its_input(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 qid:1 1:1\n2 qid:2 1:1\n3 qid:1 1:1\n")
    tools.sort(tmp_path / "a", str(tmp_path / "a"))
    assert (tmp_path / "a").read_text() == "1 qid:1 1:1\n3 qid:1 1:1\n2 qid:2 1:1\n"


@pytest.mark.parametrize("name", ["split", "shard", "sample"])
@pytest.mark.parametrize("count", [3, 5000])
def test_fault_042_a_query_that_comes_back_is_refused_and_sort_is_named(
    name: str, count: int, tmp_path: Path
) -> None:
    text = "".join(f"1 qid:{i} 1:1\n0 qid:{i} 1:2\n" for i in range(count)) + "0 qid:1 1:9\n"
    (tmp_path / "in").write_text(text)
    with refused(
        "qid 1 reappears",
        f"first seen on {tmp_path / 'in'}:3",
        "boostrank data sort",
        line=2 * count + 1,
    ):
        run(name, tmp_path / "in", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("name", ["split", "shard", "sample"])
def test_fault_042_a_query_in_two_files_is_refused_wherever_it_stands(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "in1").write_text("1 qid:1 1:1\n1 qid:2 1:1\n")
    for text in ("1 qid:2 1:1\n0 qid:3 1:1\n", "0 qid:3 1:1\n1 qid:2 1:1\n"):
        (tmp_path / "in2").write_text(text)
        with refused(
            "qid 2 reappears", f"first seen on {tmp_path / 'in1'}:2", "boostrank data sort"
        ):
            run(name, tmp_path / "in*", tmp_path / "out")


BAD_TEXTS: dict[str, tuple[str, str]] = {
    "empty": ("", "no rows"),
    "comments": ("# a\n\n", "no rows"),
    "no qid": ("1 qid:1 1:1\n\n1 1:1\n", ":3:3: the row has no qid"),
    "label": ("1 qid:1 1:1\nx qid:1\n", ":2:1: label 'x' is not a number"),
    "no label": ("1 qid:1 1:1\nqid:1 1:1\n", ":2:1: .*not with a label"),
    "empty qid": ("1 qid: 1:1\n", ":1:3: qid '' is empty"),
    "float qid": ("1 qid:2.5 1:1\n", ":1:3: .*whole numbers"),
    "hash": ("1 qid:1#x 1:1\n", ":1:3: .*blank"),
    "nan": ("nan qid:1 1:1\n", ":1:1: label 'nan' is not a number"),
    "nul": ("1 qid:\x001 1:1\n", "NUL byte"),
    "utf16": ("\x001\x00 \x00q\x00i\x00d\x00:\x001\x00\n", "UTF-16"),
    "zip": ("PK\x03\x04abc", "zip archive"),
}


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("what", BAD_TEXTS)
def test_what_cannot_be_read_is_refused_as_the_reader_refuses_it(what: str, tmp_path: Path) -> None:
    text, words = BAD_TEXTS[what]
    (tmp_path / "in").write_text(text)
    with pytest.raises(FileFormatError, match=words) as ours:
        tools.sort(tmp_path / "in", str(tmp_path / "out"))
    with pytest.raises(FileFormatError) as theirs:
        read_libsvm(tmp_path / "in", format="libsvm")
    assert str(ours.value) == str(theirs.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("name", TOOLS)
def test_a_failure_leaves_old_outputs_as_they_were(name: str, tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(TEXT)
    outputs = run(name, tmp_path / "good", tmp_path / "out.txt")
    before = {path: path.read_bytes() for path in outputs}
    (tmp_path / "bad").write_bytes(reordered(QUERIES) + b"x\n")
    with refused("label 'x'"):
        run(name, tmp_path / "bad", tmp_path / "out.txt")
    assert {path: path.read_bytes() for path in outputs} == before
    assert {path.name for path in tmp_path.iterdir()} == {
        "good",
        "bad",
        *(path.name for path in outputs),
    }


@pytest.mark.parametrize("name", ["split", "sort"])
def test_a_kill_leaves_old_outputs_as_they_were(name: str, tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(TEXT)
    outputs = run(name, tmp_path / "good", tmp_path / "out.txt")
    before = {path: path.read_bytes() for path in outputs}
    options = ["--parts", "a=0.5,b=0.3,c=0.2"] if name == "split" else []
    command = [
        sys.executable,
        "-m",
        "boostrank",
        "data",
        name,
        "-",
        *options,
        "-o",
        str(tmp_path / "out.txt"),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(
            b"".join(b"1 qid:%d 1:1 # %s\n" % (i, b"x" * 200) for i in range(50_000))
        )
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out*.tmp")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert list(tmp_path.glob(".out*.tmp"))  # it was at work
    assert {path: path.read_bytes() for path in outputs} == before


def test_a_full_disk_is_told_and_leaves_the_old_output(source: Path, tmp_path: Path) -> None:
    import resource

    (tmp_path / "out").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(TrainingError, match=r"out: .*File too large"):
            tools.sample(source, str(tmp_path / "out"), 1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert (tmp_path / "out").read_text() == "old"


def test_outputs_that_cannot_be_are_refused_before_the_work(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        run("split", source, tmp_path / "none" / "out")
    (tmp_path / "out-b.txt.query").write_text("1\n")
    with pytest.raises(InputError, match=r"out-b\.txt\.query exists"):
        run("split", source, tmp_path / "out.txt")
    assert not list(tmp_path.glob("out*.txt"))


def test_two_outputs_that_are_one_file_are_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out-a").symlink_to("out-b")
    with pytest.raises(InputError, match=r"out-a .*out-b .*same file"):
        tools.split(source, str(tmp_path / "out"), {"a": 0.5, "b": 0.5})
    assert not (tmp_path / "out-b").exists()


def test_a_disk_that_is_full_at_the_end_leaves_every_old_output(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(out: Output) -> None:
        if out.path.endswith("a"):  # the first to be opened is the last to be closed
            raise OSError(errno.ENOSPC, "No space left on device")
        finish_as_ever(out)

    finish_as_ever = Output.finish
    monkeypatch.setattr(Output, "finish", finish)
    with pytest.raises(TrainingError, match="No space left"):
        tools.split(source, str(tmp_path / "out"), {"a": 0.5, "b": 0.5})
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_comments_of_a_last_file_without_rows_are_kept(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("# head\n1 qid:1 1:1\n")
    (tmp_path / "2").write_text("# nothing but this\n")
    tools.sample([tmp_path / "1", tmp_path / "2"], str(tmp_path / "out"), 1.0)
    assert (tmp_path / "out").read_text() == "# head\n1 qid:1 1:1\n# nothing but this\n"


def test_weights_beside_the_input_are_mentioned(source: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt.weight").write_text("1\n" * len(QUERIES))
    with pytest.warns(DataWarning, match=r"in\.txt\.weight: "):
        run("sort", source, tmp_path / "out")


def test_an_output_without_queries_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1 qid:1 1:1\n1 qid:2 1:1\n")
    with pytest.raises(DataError, match=r"no query .*s-002.*fewer shards"):
        run("shard", tmp_path / "in", tmp_path / "s", shards=3)
    with pytest.raises(DataError, match="try another seed"):
        tools.split(tmp_path / "in", str(tmp_path / "s"), {"a": 0.999999, "b": 0.000001})
    with pytest.raises(DataError, match=r"3 queries .*only 2"):
        run("sample", tmp_path / "in", tmp_path / "s", queries=3)
    with pytest.raises(DataError, match="no query was drawn"):
        run("sample", tmp_path / "in", tmp_path / "s", queries=1e-9)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: tools.split(s, "o", {"a": 0.5, "b": 0.4}), "add up to 0.9, not 1"),
        (lambda s: tools.split(s, "o", {"a": 1.5, "b": -0.5}), "share 1.5"),
        (lambda s: tools.split(s, "o", {"a/b": 1.0}), "part 'a/b'"),
        (lambda s: tools.split(s, "o{}{}", {"a": 1.0}), "once"),
        (lambda s: tools.split(s, "o{name}", {"a": 1.0}), "once"),
        (lambda s: tools.split(s, "-", {"a": 1.0}), "standard output"),
        (lambda s: tools.shard(s, "o", 0), "shards=0"),
        (lambda s: tools.shard(s, "o", 501), "allowed: 1 to 500"),
        (lambda s: tools.sample(s, "o", 0), "queries=0"),
        (lambda s: tools.sample(s, "o", 0.0), "queries=0.0"),
        (lambda s: tools.sample(s, "o", 1.5), "queries=1.5"),
        (lambda s: tools.sample(io.BytesIO(), "o", 9), "save the stream to a file"),
        (lambda s: tools.sort(s, "o.csv"), "--format csv"),
        (lambda s: tools.sort(s, "o.txt.zst"), "end the name in .gz"),
        (lambda s: tools.sample([s, s], "o", 1.0), "given twice"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    call: Tool, words: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=words):
        call(source)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_number_has_three_digits_and_a_name_goes_before_the_endings(
    source: Path, tmp_path: Path
) -> None:
    (tmp_path / "d.d").mkdir()
    assert [p.name for p in run("shard", source, tmp_path / "d.d" / "w.txt.gz", shards=2)] == [
        "w-000.txt.gz",
        "w-001.txt.gz",
    ]
    assert [p.name for p in run("shard", source, tmp_path / "{}-w", shards=2)] == ["000-w", "001-w"]
    assert [p.name for p in run("split", source, tmp_path / "{}.txt")] == [
        "a.txt",
        "b.txt",
        "c.txt",
    ]
    assert [p.name for p in run("split", source, tmp_path / "d.d" / "w")] == ["w-a", "w-b", "w-c"]


def test_fault_011_an_endless_line_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(b"1 qid:1 1:1\n" + b" " * (65 << 20), 1)
    (tmp_path / "in").write_bytes(packed)
    with refused("longer than 64 MiB", line=2):
        run("sort", tmp_path / "in", tmp_path / "out")
    (tmp_path / "comments").write_bytes(gzip.compress((b"#" + b" " * 1000 + b"\n") * (17 << 10), 1))
    with refused("more than 16 MiB of comments"):
        run("sort", tmp_path / "comments", tmp_path / "out")


@pytest.mark.parametrize("name", ["split", "shard"])
def test_fault_057_memory_stays_flat_whatever_is_unpacked(name: str, tmp_path: Path) -> None:
    text = b"".join(b"1 qid:%d 1:1 2:%s\n" % (i, b"0" * 5000) for i in range(9000))
    (tmp_path / "in").write_bytes(gzip.compress(text, 1))
    size = len(text)
    del text
    (tmp_path / "small").write_bytes(gzip.compress(TEXT))
    # Modules and kernels that are loaded once are not counted.
    run(name, tmp_path / "small", tmp_path / "first")
    tracemalloc.start()
    try:
        paths = run(name, tmp_path / "in", tmp_path / "out")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(path.stat().st_size for path in paths) == size
    assert size > 44_000_000
    assert peak < 34_000_000


def test_progress_reaches_the_end(source: Path, tmp_path: Path) -> None:
    for name in TOOLS:
        seen: list[tuple[int, int | None]] = []
        run(
            name,
            source,
            tmp_path / "out",
            progress=lambda done, total, seen=seen: seen.append((done, total)),
        )
        assert seen[-1] == (len(TEXT), len(TEXT))


def test_outputs_may_be_path_objects(source: Path, tmp_path: Path) -> None:
    output: Any = tmp_path / "out.txt"
    assert tools.sample(source, output, 1).path == str(output)
    parts = tools.split(source, output, {"a": 0.5, "b": 0.5})
    assert [part.path for part in parts] == [str(tmp_path / f"out-{name}.txt") for name in "ab"]
