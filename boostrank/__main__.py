"""Entry point for `python -m boostrank` and for the script `boostrank`."""

import sys


def run() -> None:
    """Run the command line. Ctrl-C can interrupt it before its first import begins."""
    try:
        from boostrank.cli import run as run_command
    except KeyboardInterrupt:
        print("boostrank: stopped", file=sys.stderr)  # noqa: T201
        sys.exit(130)

    run_command()


if __name__ == "__main__":  # processes that Dask starts import this file again
    run()
