"""Version of this code: `.dev0` until it is out."""

__version__ = "0.2.0.dev0"
