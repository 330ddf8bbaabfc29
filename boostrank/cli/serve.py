"""The command `boostrank serve`."""

from __future__ import annotations

import logging
import socket
from typing import Any

from boostrank.cli.command import Command
from boostrank.cli.errors import say
from boostrank.core.errors import InputError
from boostrank.options import Limits, Options, argument, option


class Serve(Options):
    """Options of `boostrank serve`."""

    model: str = argument("MODEL", file="read")
    host: str = option(
        "Address to listen on; 0.0.0.0 accepts other machines.", "127.0.0.1", metavar="ADDRESS"
    )
    port: int = option("Port to listen on; 0 chooses a free one.", 8080, ge=0, le=65535)


@Command
def serve(options: Serve, limits: Limits) -> None:
    """Score documents over HTTP with MODEL. Load MODEL again when its file changes.

    POST rows to /score as JSON, such as {"rows": [{"bm25": 1.5, "clicks": null}]}.
    SageMaker's /invocations and /ping work too; /health, /model and /metrics describe the service.
    Ctrl-C and SIGTERM let running requests end.

    There is no encryption and no login: put a proxy in front for other networks.
    """
    from boostrank.serving import make_app

    app = make_app(options.model, limits)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, backlog=2048)
    except OSError as error:
        raise InputError(f"--host {options.host} --port {options.port}: {error.strerror}") from None
    # Responses are two packets, of which the second must not wait for the client.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    logging.basicConfig(format="boostrank: %(message)s")
    import uvicorn  # after the module that says how to install it

    config = uvicorn.Config(
        app,
        http=_impatient(limits.timeout),
        log_config=None,
        access_log=False,
        limit_concurrency=limits.waiting,
        timeout_graceful_shutdown=int(limits.timeout) + 1,
        server_header=False,
    )
    host = f"[{options.host}]" if ":" in options.host else options.host
    say(f"{options.model}: served at http://{host}:{listener.getsockname()[1]}/score")
    uvicorn.Server(config).run(sockets=[listener])


def _impatient(seconds: float) -> Any:
    """Return a protocol that closes a connection on which no request begins within some seconds,
    and whose client has not read the last answer.

    uvicorn waits without end for either, and counts such connections as requests.
    """
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Impatient(AutoHTTPProtocol):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def _wait(self) -> None:
            self.loop.call_later(seconds, self._check, self.cycle)

        def _check(self, cycle: Any) -> None:
            """Close the connection if its last request ended before the wait."""
            if self.transport.is_closing():  # the client has left
                return
            if self.cycle is not cycle or (cycle is not None and not cycle.response_complete):
                self._wait()
            else:
                self.transport.abort()

    return Impatient
