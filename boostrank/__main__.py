"""`python -m boostrank`."""

from boostrank.cli import main

if __name__ == "__main__":  # processes that Dask starts import this file once more
    main()
