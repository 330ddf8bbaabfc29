"""`python -m qa.net [CASE ...]`: run cases, and say which of their outputs are not what they
were.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before the engines are imported

from qa.net.cases import CASES
from qa.net.keeping import KEPT, differences, fingerprint, hashes_of, outputs_of, read_kept


def main() -> int:
    """Run what the command line names; 1 where something differs or fails."""
    parser = argparse.ArgumentParser(prog="python -m qa.net", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="all of them by default")
    parser.add_argument("--write", action="store_true", help="keep the hashes of these cases")
    parser.add_argument(
        "--dump",
        type=Path,
        metavar="DIR",
        help="write every output as DIR/CASE/OUTPUT, to be diffed",
    )
    parser.add_argument(
        "--threads", type=int, default=2, help="of trainings and commands; the hashes are the same"
    )
    asked = parser.parse_args()
    unknown = [name for name in asked.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    current = fingerprint()
    then = read_kept() if KEPT.exists() else {"fingerprint": current, "cases": {}}
    others = differences(then["fingerprint"], current)
    if others and asked.write and asked.cases:
        parser.error(f"hashes of another {', '.join(others)} are kept: write all cases")
    if others:
        sys.stderr.write(
            f"the hashes were made with another {', '.join(others)}: they will differ\n"
        )
    hashes, changed, failed, started = {}, 0, 0, time.perf_counter()
    for name in asked.cases or CASES:
        begun = time.perf_counter()
        try:
            outputs = outputs_of(CASES[name], asked.threads)
        except Exception:  # the other cases are to be seen too
            failed += 1
            sys.stdout.write(f"{name:26} fails\n{traceback.format_exc()}\n")
            continue
        if asked.dump is not None:
            (asked.dump / name).mkdir(parents=True, exist_ok=True)
            for output, text in outputs.items():
                (asked.dump / name / output).write_text(text, encoding="utf-8")
        hashes[name] = hashes_of(outputs)
        differing = differences(then["cases"].get(name, {}), hashes[name])
        changed += bool(differing)
        words = (
            "is not kept yet" if name not in then["cases"] else f"differs: {', '.join(differing)}"
        )
        if not differing:
            words = "same"
        sys.stdout.write(f"{name:26} {time.perf_counter() - begun:5.1f} s  {words}\n")
        sys.stdout.flush()
    count = len(hashes) + failed
    seconds = time.perf_counter() - started
    sys.stdout.write(f"{count} cases: {changed} differ, {failed} fail, {seconds:.0f} s\n")
    if asked.write and not failed:
        cases = {**then["cases"], **hashes}
        cases = {name: cases[name] for name in CASES if name in cases}
        KEPT.write_text(
            json.dumps({"fingerprint": current, "cases": cases}, indent=1) + "\n", encoding="utf-8"
        )
        return 0
    return int(changed + failed > 0)


if __name__ == "__main__":
    sys.exit(main())
