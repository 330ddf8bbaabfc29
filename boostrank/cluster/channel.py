"""Control channel: TCP connections between the client of a training and its workers, and among the workers.

Both ends of a connection show that they know the key of the training in a handshake of fixed length. Only then is a
length believed or a message unpickled. Every later frame carries a code made with a key of that connection, so bytes
that a stranger slips in end the connection. Messages are not encrypted: the network must be trusted not to listen.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import pickle
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from boostrank.core.types import Float64Array
from boostrank.engines.base import LostContact

Address = tuple[str, int]

_GREETING = b"boostrank/1\n"
_NONCE = 32
_CODE = 16
_HANDSHAKE_SECONDS = 10.0
_MOST_STRANGERS = 64  # connections that have not shown the key yet
_JOIN_SECONDS = 60.0
# A machine that vanishes without a word ends the connection after about a minute.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))


class WrongKey(ConnectionError):
    """The other end does not know the key."""


@dataclass(frozen=True)
class Call:
    """Where a worker finds the client of a training.

    Args:
        address: of the client.
        key: of the training.
    """

    address: Address
    key: bytes = field(repr=False)


class Link:
    """A connection to somebody who knows the key; messages may be sent from several threads.

    Args:
        connection: a connected socket, which the link closes.
        key: of the training.
        called: whether the other end has called this one.

    Raises:
        WrongKey: the other end does not know the key.
        OSError: it is gone, or takes too long to show it.
    """

    def __init__(self, connection: socket.socket, key: bytes, *, called: bool) -> None:
        self._socket, self._sending = connection, threading.Lock()
        self._sent = self._received = 0
        until = time.monotonic() + _HANDSHAKE_SECONDS
        try:
            own = secrets.token_bytes(_NONCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_HANDSHAKE_SECONDS)
            connection.sendall(_GREETING + own)
            greeting, other = self._exactly(len(_GREETING), until), self._exactly(_NONCE, until)
            if greeting != _GREETING:
                raise WrongKey("the other end speaks something else")
            nonces = other + own if called else own + other
            here, there = (b"called", b"caller") if called else (b"caller", b"called")
            # The caller shows the key first: whoever listens tells a stranger nothing.
            if not called:
                connection.sendall(_code(key, here + nonces, 32))
            if not hmac.compare_digest(self._exactly(32, until), _code(key, there + nonces, 32)):
                raise WrongKey("the other end does not know the key")
            if called:
                connection.sendall(_code(key, here + nonces, 32))
            self._key_out, self._key_in = (_code(key, b"frames" + side + nonces, 32) for side in (here, there))
            connection.settimeout(None)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            self.host = str(connection.getsockname()[0])
        except BaseException:
            connection.close()
            raise

    @property
    def name(self) -> str:
        """This end's address, host:port."""
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def send(self, message: Any) -> None:
        """Send an object that pickle takes."""
        self.send_bytes(pickle.dumps(message, protocol=5))

    def receive(self) -> Any:
        """The next object.

        Raises:
            EOFError: the other end has closed the connection.
            OSError: the connection is broken.
        """
        return pickle.loads(self.receive_bytes())

    def send_bytes(self, body: bytes | memoryview) -> None:
        """Send bytes."""
        with self._sending:
            head = struct.pack(">Q", len(body))
            code = _code(self._key_out, struct.pack(">Q", self._sent) + head, _CODE, body)
            self._sent += 1
            self._socket.sendall(head + code)
            self._socket.sendall(body)

    def receive_bytes(self) -> bytearray:
        """The next bytes; raises as `receive`."""
        head, code = self._exactly(8), self._exactly(_CODE)
        body = self._exactly(struct.unpack(">Q", head)[0])
        expected = _code(self._key_in, struct.pack(">Q", self._received) + head, _CODE, body)
        if not hmac.compare_digest(code, expected):
            self.close()
            raise WrongKey("a message was changed on its way")
        self._received += 1
        return body

    def close(self) -> None:
        """End the connection; whoever waits for a message wakes up."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, size: int, until: float | None = None) -> bytearray:
        found = bytearray()
        while len(found) < size:
            if until is not None and time.monotonic() > until:
                raise TimeoutError("the handshake takes too long")
            piece = self._socket.recv(min(size - len(found), 1 << 20))
            if not piece:
                raise EOFError("the other end has closed the connection")
            found += piece
        return found


def _code(key: bytes, text: bytes, size: int, more: bytes | memoryview | bytearray = b"") -> bytes:
    code = hashlib.blake2b(text, key=hashlib.blake2b(key).digest(), digest_size=size)
    code.update(more)
    return code.digest()


def connect(call: Call, patience: float = _JOIN_SECONDS) -> Link:
    """Call somebody who listens, or will soon.

    Args:
        call: where, and the key.
        patience: seconds to go on trying.

    Raises:
        OSError: nobody answers, or somebody with another key.
    """
    until = time.monotonic() + patience
    while True:
        try:
            return Link(socket.create_connection(call.address, _HANDSHAKE_SECONDS), call.key, called=False)
        except WrongKey:
            raise
        except (OSError, EOFError) as error:
            if time.monotonic() > until:
                raise ConnectionError(f"nobody answers at {call.address[0]}:{call.address[1]}: {error}") from error
            time.sleep(0.2)


class Door:
    """A port on which those who know the key may call. A stranger's bytes do no harm.

    Args:
        address: host and port to listen on; port 0 lets the system choose.
        key: of the training.
        welcome: called with each link, in a thread of its own.

    Raises:
        OSError: it cannot listen there.
    """

    def __init__(self, address: Address, key: bytes, welcome: Callable[[Link], None]) -> None:
        family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        self._socket = socket.create_server(address, family=family, backlog=128)
        self._key, self._welcome = key, welcome
        self._strangers = threading.BoundedSemaphore(_MOST_STRANGERS)
        self.address: Address = self._socket.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Listen no more; links that came through stay."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() < 0:
                    return
                time.sleep(0.1)  # out of descriptors: some will be free again
                continue
            if self._strangers.acquire(blocking=False):
                threading.Thread(target=self._let_in, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _let_in(self, connection: socket.socket) -> None:
        try:
            link = Link(connection, self._key, called=True)
        except (OSError, EOFError):
            return
        finally:
            self._strangers.release()
        self._welcome(link)


class Mesh:
    """A link between any two workers of a training: what each of them has for each other one, exchanged.

    Args:
        host: address of this machine by which the others reach it.
        key: of the training.

    Attributes:
        address: where the others call.
        sent: bytes so far.
    """

    def __init__(self, host: str, key: bytes) -> None:
        self._key, self._links = key, dict[int, Link]()
        self._changed = threading.Condition()
        self._door = Door((host, 0), key, self._welcome)
        self.address = self._door.address
        self.rank, self.size, self.sent = 0, 1, 0

    def join(self, rank: int, addresses: Sequence[Address]) -> None:
        """Find the others.

        Args:
            rank: of this worker.
            addresses: of all workers, by rank.

        Raises:
            LostContact: one of them does not come.
        """
        self.rank, self.size = rank, len(addresses)
        try:
            for worker in range(rank):
                link = connect(Call(addresses[worker], self._key))
                link.send(rank)
                self._links[worker] = link
        except OSError as error:
            raise LostContact(str(error)) from error
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._links) == self.size - 1, timeout=2 * _JOIN_SECONDS):
                raise LostContact("the other workers do not come")
        self._door.close()

    def all_to_all(self, pieces: Sequence[bytes | memoryview]) -> list[bytes | memoryview | bytearray]:
        """Give every worker its piece; what each of them has given this one, by rank.

        Raises:
            LostContact: one of them is gone.
        """
        found: list[Any] = list(pieces)
        try:
            for worker in range(self.size):
                if self.rank < worker:
                    self._links[worker].send_bytes(pieces[worker])
                    found[worker] = self._links[worker].receive_bytes()
                elif self.rank > worker:
                    found[worker] = self._links[worker].receive_bytes()
                    self._links[worker].send_bytes(pieces[worker])
        except (OSError, EOFError, KeyError) as error:
            self.close()  # so that the others need not wait for this one
            raise LostContact(f"worker {worker} does not answer: {error}") from error
        self.sent += sum(map(len, pieces)) - len(pieces[self.rank])
        return found

    def all_reduce(self, sums: Float64Array) -> Float64Array:
        """Sums over all workers; the same bytes on each, as they are added in the order of the ranks."""
        own = np.ascontiguousarray(sums, dtype=np.float64)
        total = np.zeros_like(own)
        for piece in self.all_to_all([own.tobytes()] * self.size):
            total += np.frombuffer(piece).reshape(own.shape)
        return total

    def close(self) -> None:
        """Leave the others."""
        self._door.close()
        for link in list(self._links.values()):
            link.close()

    def _welcome(self, link: Link) -> None:
        with contextlib.suppress(OSError, EOFError):
            rank = link.receive()
            with self._changed:
                self._links[rank] = link
                self._changed.notify_all()
