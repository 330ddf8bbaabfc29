"""TCP connections between the training client and its workers, and between the workers.

In a handshake of fixed length, both ends prove that they know the training key. No length is
trusted and no message is unpickled before the handshake. Each later message is authenticated with a
connection key, and the connection is closed if this check fails. (`multiprocessing.connection` only
authenticates the handshake.) Messages are not encrypted.
"""

from __future__ import annotations

import contextlib
import hmac
import pickle
import secrets
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.engines.base import LostContact

Address = tuple[str, int]

_GREETING = b"boostrank/1\n"
_NONCE, _PROOF, _CODE = 32, 32, 16  # bytes
_HANDSHAKE_SECONDS, _JOIN_SECONDS = 10.0, 60.0
_PIECE = 1 << 24  # bytes to allocate before any arrive
_MOST_STRANGERS = 64  # maximum number of unauthenticated connections
# Detect an unreachable machine after about a minute.
_KEEPALIVE = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 60_000),
)


class WrongKey(ConnectionError):
    """Error that is raised if the other end does not know the key."""


@dataclass(frozen=True)
class Call:
    """The address and the key of a listening process."""

    address: Address
    key: bytes = field(repr=False)


class Link:
    """An authenticated connection, which this process accepted if `called`. Several threads may
    send messages.

    Raises:
        OSError, EOFError: if the handshake failed or timed out.
    """

    def __init__(self, connection: socket.socket, key: bytes, *, called: bool) -> None:
        self._socket, self._sending = connection, threading.Lock()
        self._sent = self._received = 0
        until = time.monotonic() + _HANDSHAKE_SECONDS
        try:
            nonce = secrets.token_bytes(_NONCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_HANDSHAKE_SECONDS)
            connection.sendall(_GREETING + nonce)
            greeting, other = self._exactly(len(_GREETING), until), self._exactly(_NONCE, until)
            if greeting != _GREETING:
                raise WrongKey("the other end uses another protocol")
            nonces = other + nonce if called else nonce + other
            side, other_side = (b"called", b"caller") if called else (b"caller", b"called")
            if not called:  # the caller proves the key first, so strangers learn nothing
                connection.sendall(_code(key, side + nonces, _PROOF))
            if not hmac.compare_digest(
                self._exactly(_PROOF, until), _code(key, other_side + nonces, _PROOF)
            ):
                raise WrongKey("the other end does not know the key")
            if called:
                connection.sendall(_code(key, side + nonces, _PROOF))
            self._key_out = _code(key, b"frames" + side + nonces, 32)
            self._key_in = _code(key, b"frames" + other_side + nonces, 32)
            connection.settimeout(None)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            self.host, port = connection.getsockname()[:2]
            self.name = f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"
        except BaseException:
            connection.close()
            raise

    def send(self, message: Any) -> None:
        """Pickle and send an object."""
        self.send_bytes(pickle.dumps(message, protocol=5))

    def receive(self) -> Any:
        """Return the next object, or raise EOFError or OSError if the connection is closed or
        broken.
        """
        return pickle.loads(self.receive_bytes())

    def send_bytes(self, body: Any) -> None:
        """Send a message with its length and an authentication code; threads take turns."""
        with self._sending:
            head = struct.pack(">Q", len(body))
            head += _code(self._key_out, struct.pack(">Q", self._sent) + head, _CODE, body)
            self._sent += 1
            self._socket.sendall(b"".join((head, body)))

    def receive_bytes(self) -> bytearray:
        """Return the next frame, or raise the same errors as `receive`."""
        start = self._exactly(8 + _CODE)
        head, code = start[:8], start[8:]
        body = self._exactly(struct.unpack(">Q", head)[0])
        expected = _code(self._key_in, struct.pack(">Q", self._received) + head, _CODE, body)
        if not hmac.compare_digest(code, expected):
            self.close()
            raise WrongKey("a message was altered in transit")
        self._received += 1
        return body

    def close(self) -> None:
        """Close the connection, even if threads are waiting for a message."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, size: int, until: float | None = None) -> bytearray:
        received, n_received = bytearray(min(size, _PIECE)), 0
        while n_received < size:
            if until is not None and time.monotonic() > until:
                raise TimeoutError("the handshake timed out")
            if n_received == len(received):  # do not trust the announced length
                received += bytes(min(size - n_received, n_received))
            with memoryview(received) as buffer:
                count = self._socket.recv_into(buffer[n_received:])
            if not count:
                raise EOFError("the other end has closed the connection")
            n_received += count
        return received


def _code(key: bytes, text: bytes, size: int, body: Any = b"") -> bytes:
    code = hmac.new(key, text, "sha256")
    code.update(body)
    return code.digest()[:size]


def connect(call: Call, patience: float = _JOIN_SECONDS) -> Link:
    """Connect to a listening process, retrying for `patience` seconds, and raise OSError on
    failure.
    """
    until = time.monotonic() + patience
    while True:
        try:
            return Link(
                socket.create_connection(call.address, _HANDSHAKE_SECONDS), call.key, called=False
            )
        except WrongKey:
            raise
        except (OSError, EOFError) as error:
            if time.monotonic() > until:
                raise ConnectionError(
                    f"no answer from {call.address[0]}:{call.address[1]}: {error}"
                ) from error
            time.sleep(0.2)


class Door(socketserver.ThreadingTCPServer):
    """A server that calls `welcome` with a link to each authenticated process, in a separate
    thread.
    """

    daemon_threads, block_on_close, request_queue_size, allow_reuse_address = True, False, 128, True

    def __init__(self, address: Address, key: bytes, welcome: Callable[[Link], None]) -> None:
        self.address_family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        super().__init__(address, socketserver.BaseRequestHandler)
        self._key, self._welcome, self._strangers = (
            key,
            welcome,
            threading.BoundedSemaphore(_MOST_STRANGERS),
        )
        self.address: Address = self.socket.getsockname()[:2]
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Refuse connections above the limit for unauthenticated connections."""
        return self._strangers.acquire(blocking=False)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Authenticate a connection, and pass its link to `welcome`."""
        try:
            link = Link(request, self._key, called=True)
        except (OSError, EOFError):
            return
        finally:
            self._strangers.release()
        self._welcome(link)

    def shutdown_request(self, request: Any) -> None:
        """Leave the socket open, because its link closes it."""

    def close(self) -> None:
        """Stop listening, but keep open links."""
        self.shutdown()
        self.server_close()


class Mesh:
    """Links between the `size` workers. Other workers connect to `address`."""

    def __init__(self, host: str, key: bytes) -> None:
        self.host, self._key, self._links = host, key, dict[int, Link]()
        self._changed = threading.Condition()
        self._door = Door((host, 0), key, self._welcome)
        self.address = self._door.address
        self.rank, self.size = 0, 1

    def connect_all(self, rank: int, addresses: Sequence[Address]) -> None:
        """Connect to all workers, given their addresses by rank."""
        self.rank, self.size = rank, len(addresses)
        with _in_contact("another worker"):
            for peer in range(rank):
                self._links[peer] = connect(Call(addresses[peer], self._key))
                self._links[peer].send(rank)
        with self._changed:
            if not self._changed.wait_for(
                lambda: len(self._links) == self.size - 1, timeout=2 * _JOIN_SECONDS
            ):
                raise LostContact("the other workers did not connect")

    def all_to_all(self, buffers: Sequence[Any]) -> list[Any]:
        """Send each worker its buffer and return the received buffers, or raise LostContact if a
        worker is lost.
        """
        received: list[Any] = list(buffers)
        for turn in range(self.size):
            peer = (turn - self.rank) % self.size  # each pair meets in one turn
            with _in_contact(f"worker {peer}"):
                if self.rank < peer:
                    self._links[peer].send_bytes(buffers[peer])
                    received[peer] = self._links[peer].receive_bytes()
                elif self.rank > peer:
                    received[peer] = self._links[peer].receive_bytes()
                    self._links[peer].send_bytes(buffers[peer])
        return received

    def all_reduce(self, sums: Float64Array) -> Float64Array:
        """Return sums over all workers, added in rank order so that each worker gets the same
        bytes.
        """
        sums = np.ascontiguousarray(sums, dtype=np.float64)
        total = np.zeros_like(sums)
        for buffer in self.all_to_all([sums.tobytes()] * self.size):
            total += np.frombuffer(buffer).reshape(sums.shape)
        return total

    def share(self, value: Any, reader: int | None = None) -> list[Any]:
        """Return the values from all workers by rank. With `reader`, only that worker receives
        them.
        """
        body = pickle.dumps(value, protocol=5)
        buffers = [body if reader in (None, peer) else b"" for peer in range(self.size)]
        return [pickle.loads(buffer) if buffer else None for buffer in self.all_to_all(buffers)]

    def close(self) -> None:
        """Close all links, so that the other workers stop waiting."""
        for link in list(self._links.values()):
            link.close()
        self._door.close()

    def _welcome(self, link: Link) -> None:
        with contextlib.suppress(OSError, EOFError):
            rank = link.receive()
            with self._changed:
                self._links[rank] = link
                self._changed.notify_all()


@contextlib.contextmanager
def _in_contact(peer: str) -> Iterator[None]:
    """Raise `LostContact` for connection errors in the block."""
    try:
        yield
    except (OSError, EOFError) as error:
        raise LostContact(f"{peer} does not answer: {error}") from error
