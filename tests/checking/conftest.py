from tests.cli.conftest import data as data
