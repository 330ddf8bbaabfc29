"""`python -m boostrank`, and the script `boostrank`."""

from boostrank.core.machine import stop_quietly


def run() -> None:
    """The command line, of which no import is begun before Ctrl-C can leave it."""
    stop_quietly()
    from boostrank.cli import run as run_command

    run_command()


if __name__ == "__main__":  # processes that Dask starts import this file once more
    run()
