"""Attacks by load: one user floods an aggregator, and the steps of another user's job wait for a bounded part of that work.

The bound is counted in work, not in time, so that a busy machine does not change it: all steps of the steady job are in its socket
before the first one is answered, and between two of them the aggregator serves the flood once at most, in the mean. A turn is
EVENT_BYTES. Without turns by the work done each of the flood's connections has one.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from tests.services.parameter_service.conftest import AggregatorProcess, Deployment, until
from tests.services.parameter_service.test_aggregator import Rank
from tiresias.errors import TiresiasError
from tiresias.services.parameter_service.messages.agent_messages import Locate, Parameters, Pull, Push
from tiresias.services.wire.channel import address_of, frame_of
from tiresias.services.wire.connection import EVENT_BYTES
from tiresias.services.wire.handshake import new_nonce
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.session_messages import Hello

STEPS, CONNECTIONS, ELEMENTS = 40, 16, 1 << 18
HANDSHAKES_S = 30.0


@contextmanager
def running(works: list[Callable[[threading.Event], None]]) -> Iterator[None]:
    """Run functions in threads; their event is set at the end."""
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(stop,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def steps_of(steady: Rank, first: int) -> None:
    """Make STEPS steps, all of them on their way at once."""
    gradient = np.ones(4, np.float32)
    for step in range(first, first + STEPS):
        steady.channel.send_frames(
            [frame_of(Push("a", 1, step), gradient.nbytes), gradient.data.cast("B"), frame_of(Pull("a", 1, step + 1))]
        )
    for step in range(first, first + STEPS):
        assert steady.channel.receive(steady._place) == Parameters("a", step + 1)


def pushes(rank: Rank) -> Callable[[threading.Event], None]:
    """Push as fast as the aggregator takes it."""

    def push(stop: threading.Event) -> None:
        gradient, step = np.ones(ELEMENTS, np.float32), 0
        with suppress(TiresiasError):  # the aggregator ends with the test
            while not stop.is_set():
                rank.push(gradient, step)
                step += 1

    return push


def requests(rank: Rank) -> Callable[[threading.Event], None]:
    """Send small requests, many in a call, and read the answers."""

    def request(stop: threading.Event) -> None:
        frames = [frame_of(Locate("x" * 500))] * 200
        with suppress(TiresiasError):
            while not stop.is_set():
                rank.channel.send_frames(frames)
                for _ in frames:
                    rank.channel.receive()

    return request


def handshakes(place: AggregatorProcess) -> Callable[[threading.Event], None]:
    """Begin handshakes for the steady job, whose key the attacker does not have, and leave them."""

    def begin(stop: threading.Event) -> None:
        while not stop.is_set():
            with suppress(OSError), socket.create_connection(address_of(place.address), 5) as sock:
                sock.sendall(frame_of(Hello(str(agent_identity("steady", 0, 0)), new_nonce())))
                sock.recv(1)

    return begin


def pushed(deployment: Deployment, place: AggregatorProcess) -> int:
    return int(deployment.tensors(place, "flood")["a"]["updates"])


def test_pushes_on_many_connections_delay_a_step_by_one_turn(deployment: Deployment) -> None:
    place = deployment.aggregator()
    flooding = deployment.job("flood", CONNECTIONS, place, mode="asynchronous", staleness=1 << 30)
    ranks = [Rank(flooding(rank), place, rank) for rank in range(CONNECTIONS)]
    ranks[0].init(size=ELEMENTS)
    steady = Rank(deployment.job("steady", 1, place)(0), place)
    steady.init()
    with running([pushes(rank) for rank in ranks]):
        until(lambda: pushed(deployment, place) > 4 * CONNECTIONS, "the flood runs")
        before = pushed(deployment, place)
        steps_of(steady, 0)
        work = (pushed(deployment, place) - before) * 4 * ELEMENTS
    assert work <= STEPS * EVENT_BYTES, f"{work / STEPS / EVENT_BYTES:.1f} turns a step"


def test_small_requests_and_handshakes_leave_a_step_its_turn(deployment: Deployment) -> None:
    place = deployment.aggregator()
    flooding = deployment.job("flood", 4, place)
    ranks = [Rank(flooding(rank), place, rank) for rank in range(4)]
    steady = Rank(deployment.job("steady", 1, place)(0), place)
    steady.init()
    with running([*(requests(rank) for rank in ranks), *(handshakes(place) for _ in range(4))]):
        began = time.monotonic()
        for round_ in range(5):
            steps_of(steady, round_ * STEPS)
        assert time.monotonic() - began < HANDSHAKES_S
