"""The control channel: those with the key talk, a stranger's bytes do no harm."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boostrank.cluster import channel
from boostrank.cluster.channel import Call, Door, Link, Mesh, WrongKey, connect
from boostrank.engines.base import LostContact

KEY = b"k" * 32


@pytest.fixture(scope="module")
def door() -> Iterator[tuple[Door, queue.Queue[Link]]]:
    links: queue.Queue[Link] = queue.Queue()
    listener = Door(("127.0.0.1", 0), KEY, links.put)
    yield listener, links
    listener.close()


@pytest.mark.parametrize("piece", [16, channel._PIECE])
def test_messages_of_any_size_arrive_in_order_both_ways(
    door: tuple[Door, queue.Queue[Link]], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_PIECE", piece)  # longer messages grow while they are read
    near = connect(Call(door[0].address, KEY))
    far = door[1].get(timeout=10)
    sent = [1, "a", np.arange(300_000), b"", [None] * 1000]
    for message in sent:
        threading.Thread(target=near.send, args=(message,)).run()
        threading.Thread(target=far.send, args=(message,)).run()
        for end in (far, near):
            received = end.receive()
            assert (
                np.array_equal(received, message)
                if isinstance(message, np.ndarray)
                else received == message
            )
    near.close()
    with pytest.raises(EOFError):
        far.receive()


def test_another_key_is_refused_at_both_ends(door: tuple[Door, queue.Queue[Link]]) -> None:
    with pytest.raises((WrongKey, EOFError, ConnectionError)):
        connect(Call(door[0].address, b"other"), 0.1)
    assert door[1].empty()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_a_strangers_bytes_do_no_harm(
    door: tuple[Door, queue.Queue[Link]], body: bytes, greets: bool
) -> None:
    with socket.create_connection(door[0].address) as stranger:
        greeting = channel._GREETING if greets else b""
        stranger.sendall(greeting + body)
    assert door[1].empty()


def test_strangers_who_say_nothing_keep_nobody_waiting(
    door: tuple[Door, queue.Queue[Link]],
) -> None:
    silent = [socket.create_connection(door[0].address) for _ in range(20)]
    started = time.monotonic()
    link = connect(Call(door[0].address, KEY))
    door[1].get(timeout=10).close()
    link.close()
    assert time.monotonic() - started < 5
    for stranger in silent:
        stranger.close()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 400), st.integers(1, 255))
def test_a_changed_byte_ends_the_connection(
    door: tuple[Door, queue.Queue[Link]], at: int, change: int
) -> None:
    """Somebody in the middle changes one byte of what goes one way."""
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0)) as middle,
    ):
        # A relay, which changes the byte.
        patch.setattr(channel, "_HANDSHAKE_SECONDS", 1.0)

        def pass_on() -> None:
            near, _ = middle.accept()
            with near, socket.create_connection(door[0].address) as far:
                threading.Thread(target=copy, args=(far, near, None), daemon=True).start()
                copy(near, far, at)

        def copy(source: socket.socket, sink: socket.socket, position: int | None) -> None:
            done = 0
            try:
                while piece := bytearray(source.recv(4096)):
                    if position is not None and done <= position < done + len(piece):
                        piece[position - done] ^= change
                    done += len(piece)
                    sink.sendall(piece)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        threading.Thread(target=pass_on, daemon=True).start()

        # What is said through it is not heard.
        def talk() -> str:
            near = Link(socket.create_connection(middle.getsockname()), KEY, called=False)
            near.send("x" * 400)
            near.close()
            return str(door[1].get(timeout=0.3).receive())

        with pytest.raises((OSError, EOFError, queue.Empty)):
            talk()


def test_workers_exchange_what_they_have_for_each_other() -> None:
    meshes = [Mesh("127.0.0.1", KEY) for _ in range(3)]
    addresses = [mesh.address for mesh in meshes]

    def work(rank: int) -> tuple[list[bytes], list[float]]:
        mesh = meshes[rank]
        mesh.connect_all(rank, addresses)
        pieces = [f"{rank} to {peer}".encode() for peer in range(3)]
        return list(map(bytes, mesh.all_to_all(pieces))), list(
            mesh.all_reduce(np.array([rank, 0.1]))
        )

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(work, range(3)))
    for rank, (pieces, sums) in enumerate(results):
        assert pieces == [f"{peer} to {rank}".encode() for peer in range(3)]
        assert sums == results[0][1] == [3.0, 0.1 + 0.1 + 0.1]
    meshes[1].close()
    with pytest.raises(LostContact):
        meshes[0].all_reduce(np.ones(1))
    meshes[0].close()
    meshes[2].close()
