"""The picture of a report in README, docs/assets/report.png: `make picture`. It needs Chromium."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "demo" / "picture"
COMMANDS = (
    "data make . --queries 600 --seed 1",
    "train train.txt --valid valid.txt --model model.txt",
    "report model.txt test.txt -o report.html",
)
BROWSER = (
    "chromium --headless --no-sandbox --hide-scrollbars --virtual-time-budget=8000"
    " --window-size=1120,1130 --force-device-scale-factor=0.75"
)


def main() -> None:
    """Train on generated data, write the report, and photograph its first screen."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for command in COMMANDS:
        words = [sys.executable, "-m", "boostrank", *command.split()]
        subprocess.run(words, cwd=FOLDER, check=True)
    picture = ROOT / "docs" / "assets" / "report.png"
    page = (FOLDER / "report.html").as_uri()
    subprocess.run([*BROWSER.split(), f"--screenshot={picture}", page], check=True)


if __name__ == "__main__":
    main()
