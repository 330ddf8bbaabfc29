"""`boostrank serve` without its extra, or its address."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, refuse


def test_without_the_extra_the_remedy_is_a_command(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "boostrank.serving", raising=False)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    result = refuse("serve", model)
    assert "pip install 'boostrank[serve]'" in result.stderr


def test_an_address_that_is_taken_is_named(model: Path) -> None:
    pytest.importorskip("uvicorn", reason="serving is an extra")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = invoke("serve", model, "--port", port)
    assert result.exit_code == 2
    assert str(port) in result.stderr
