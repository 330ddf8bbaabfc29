"""Demo: what boostrank and other libraries cost and give with no options, on queries that none of
them has seen.

    python -m experiments.defaults.demo [TRAIN VALID TEST] [--few N] [--truth SCORES] [--model FILE]

Without files, as `make demo` runs it, it generates data, whose truth is known, and says how to go
on; any three libsvm files with `qid:` will do. The others train on TRAIN and stop by VALID. TEST is
measured on and nothing else.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from boostrank.cli.setup import compile_aside

DATA, MODEL = Path("demo/data"), Path("demo/model.txt")
FEW = 300  # judged queries, as where people judge
NEXT = """\
Each library has its own defaults. ± is half of a 95% interval over the test queries. "Four LightGBMs" are
LightGBM trained on four folds, with trees that suit, and averaged: you can build that without boostrank.
On seven public sets, boostrank is 0.0169 [0.0045, 0.0298] above them: experiments/defaults/README.md.

The model of the last table is demo/model.txt, in LightGBM's own format. Next, with a file of your own
(label qid:ID number:value ..., or CSV):

    . .venv/bin/activate
    boostrank train my-train.txt --model my-model.txt
    boostrank predict my-model.txt my-new.txt -o scores.txt"""
"""What `make demo` says at its end."""


def main() -> None:
    """Compare on files, or on generated data."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="three libsvm files with qid: queries to train on, to stop by, and to measure on",
    )
    parser.add_argument(
        "--few", type=int, help="a table before: N queries of TRAIN, a third as many of VALID"
    )
    parser.add_argument(
        "--truth", help="the true relevance of TEST's documents, one a line: the best possible"
    )
    parser.add_argument("--model", type=Path, help="where boostrank's model goes")
    parser.add_argument("--threads", type=int, help="default: every available core")
    options = parser.parse_args()
    if options.files:
        from experiments.defaults.side_by_side import compare

        compare(options.files, options)
        return
    # Other processes generate and compile while this one loads the libraries.
    generation = start_generation()
    compile_aside(None, None)
    from experiments.defaults.side_by_side import compare, fits_by_label

    fits_by_label()
    files = end_generation(generation)
    options.few, options.truth, options.model = FEW, str(DATA / "test-relevance.txt"), MODEL
    print("training for half a minute or longer, and compiling boostrank's arithmetic once ...\n")
    compare(files, options)
    print(NEXT)


def start_generation() -> subprocess.Popen[str]:
    """Begin to write generated data."""
    command = [sys.executable, "-m", "boostrank", "data", "make", str(DATA), "--queries", "2000"]
    return subprocess.Popen(
        [*command, "--seed", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def end_generation(generation: subprocess.Popen[str]) -> list[str]:
    """Return the files to train on, to stop by, and to measure on, once they are written.

    Raises:
        SystemExit: they could not be written.
    """
    output, _ = generation.communicate()
    if generation.returncode:
        sys.exit(output)
    print("\n".join(line for line in output.splitlines() if "rows" in line), flush=True)
    return [str(DATA / f"{part}.txt") for part in ("train", "valid", "test")]


if __name__ == "__main__":
    main()
