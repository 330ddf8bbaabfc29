"""Entry point for `python -m boostrank` and for the script `boostrank`."""

from boostrank.core.machine import stop_quietly


def run() -> None:
    """Run the command line. Ctrl-C can interrupt it before its first import begins."""
    stop_quietly()
    from boostrank.cli import run as run_command

    run_command()


if __name__ == "__main__":  # processes that Dask starts import this file again
    run()
