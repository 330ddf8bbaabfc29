"""`python -m boostrank`."""

from boostrank.cli import run

if __name__ == "__main__":  # processes that Dask starts import this file once more
    run()
