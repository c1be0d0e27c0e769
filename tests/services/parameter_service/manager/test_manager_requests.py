"""Agents at the manager's ports, over real sockets: each job reaches its own tensors only, and a bad client harms itself only."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiresias.errors import TiresiasError
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.manager.agent_requests_of_manager import ManagerRequests
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.manager.registration_port import LoopCall, RegistrationPort
from tiresias.services.parameter_service.messages import manager_messages as messages
from tiresias.services.wire.channel import Channel, ConnectionLost
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.server_loop import ServerLoop, listening
from tiresias.services.wire.session_messages import Accepted, Refused

KEYS = {"a": bytes(range(32)), "b": bytes(range(1, 33))}
SIZES = {"fc6": 1000, "conv": 100}


class RunningManager:
    """The loop of a manager in a thread; aggregators run as soon as they are in `addresses`."""

    def __init__(self, folder: Path) -> None:
        self.addresses: dict[int, str] = {}
        self._folder, self._made = folder, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._made.wait(30)
        self.call = LoopCall(self._loop.call)

    def _run(self) -> None:  # the journal belongs to the thread of the loop
        journal = ManagerJournal(self._folder, 1)
        self.jobs = RegisteredJobs(journal, AggregatorClusters(AssignmentRules(), 4))
        with listening("127.0.0.1", 0) as server:
            self.address = f"127.0.0.1:{server.getsockname()[1]}"
            self._loop = ServerLoop(ManagerRequests(self.jobs, self._address_of, lambda job: {}), server)
            self._made.set()
            self._loop.run()
        journal.close()

    def _address_of(self, job: str, number: int) -> str:
        return self.addresses.get(number, "")

    def register(self, job: str) -> None:
        self.call.run(lambda: self.jobs.register(job, os.getuid(), KEYS[job], servers=2, workers=2))

    def connect(self, job: str, rank: int = 0, key: bytes | None = None) -> Channel:
        return Channel.connect(self.address, agent_identity(job, rank, 0), key or KEYS[job], timeout_s=10)

    def stop(self) -> None:
        self._loop.stop()
        self._thread.join()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[RunningManager]:
    found = RunningManager(tmp_path)
    yield found
    found.stop()


def asked(channel: Channel, content: Any, table: object = None) -> tuple[Any, dict[str, str]]:
    """Send a request; return the answer and its table."""
    buffer = bytearray()

    def place(_: Any, count: int) -> memoryview:
        buffer.extend(bytes(count))
        return memoryview(buffer)

    payload = [] if table is None else [json.dumps(table).encode()]
    answer = channel.request(content, *payload, place=place)
    return answer, json.loads(buffer) if buffer else {}


def test_a_job_is_placed_profiled_and_removed(manager: RunningManager) -> None:
    manager.register("a")
    agent = manager.connect("a")
    assert asked(agent, messages.PlaceTensors(), SIZES) == (messages.TensorPlacement(False), {})
    manager.addresses.update({0: "node1:1", 1: "node2:2"})
    answer, table = asked(agent, messages.PlaceTensors(), SIZES)
    assert answer == messages.TensorPlacement(True)
    assert set(table.values()) == {"node1:1", "node2:2"}
    assert asked(agent, messages.ReportProfile(1.0), dict.fromkeys(table, 0.1))[0] == Accepted()
    located = asked(agent, messages.Locations())[1]
    assert located.keys() - table.keys() == {f"{block} before" for block in table if located[block] != table[block]}
    assert {located.get(f"{block} before", located[block]) for block in table} == {"node1:1", "node2:2"}
    assert asked(agent, messages.ReportIteration(1.0))[0] == Accepted()
    assert asked(agent, messages.EndJob())[0] == Accepted()
    assert isinstance(asked(agent, messages.Locations())[0], Refused)
    with pytest.raises(TiresiasError):
        manager.connect("a")


def test_a_job_does_not_reach_another_one(manager: RunningManager) -> None:
    manager.register("a")
    manager.register("b")
    for job, key in (("a", KEYS["b"]), ("b", KEYS["a"]), ("c", KEYS["a"])):
        with pytest.raises(TiresiasError):
            manager.connect(job, key=key)
    asked(manager.connect("a"), messages.PlaceTensors(), SIZES)
    asked(manager.connect("b"), messages.EndJob())
    assert set(manager.jobs.target("a")) >= set(SIZES)


@pytest.mark.parametrize(
    ("content", "table"),
    [
        (messages.PlaceTensors(), [1]),
        (messages.PlaceTensors(), {"t": 1.5}),
        (messages.PlaceTensors(), {"t": True}),
        (messages.PlaceTensors(), None),
        (messages.ReportProfile(1.0), {"t": 1.0}),
        (messages.ReportProfile(float("nan")), {"fc6": 1.0}),
        (messages.ReportIteration(-1.0), None),
    ],
)
def test_bad_requests_are_refused_and_change_nothing(manager: RunningManager, content: Any, table: object) -> None:
    manager.register("a")
    agent = manager.connect("a")
    answer, _ = asked(agent, content, table)
    assert isinstance(answer, Refused)
    assert asked(agent, messages.PlaceTensors(), SIZES)[0] == messages.TensorPlacement(False)


def test_other_ranks_report_nothing(manager: RunningManager) -> None:
    manager.register("a")
    assert isinstance(asked(manager.connect("a", rank=1), messages.ReportIteration(1.0))[0], Refused)


def test_a_payload_that_is_not_expected_ends_its_connection_only(manager: RunningManager) -> None:
    manager.register("a")
    bad, good = manager.connect("a"), manager.connect("a", rank=1)
    bad.send(messages.Locations(), bytes(10))
    assert isinstance(bad.receive(), Refused)
    with pytest.raises(ConnectionLost):
        bad.receive()
    assert asked(good, messages.PlaceTensors(), SIZES)[0] == messages.TensorPlacement(False)


# the registration port


@pytest.fixture
def registration() -> Iterator[Callable[[], Channel]]:
    server = listening("127.0.0.1", 0)
    RegistrationPort(server, lambda each: None).start()
    port = server.getsockname()[1]
    yield lambda: Channel(socket.create_connection(("127.0.0.1", port), 10), "manager", 10)
    server.close()


def test_what_is_no_credential_registers_nothing(registration: Callable[[], Channel]) -> None:
    answer = registration().request(messages.RegisterJob("MUNGE:no credential:"))
    assert answer == Refused("refused", "this is no munge credential")
    assert isinstance(registration().request(messages.EndJob()), Refused)


def test_silent_clients_do_not_keep_others_from_registering(registration: Callable[[], Channel]) -> None:
    silent = [registration() for _ in range(20)]
    assert isinstance(registration().request(messages.RegisterJob("")), Refused)
    assert len(silent) == 20
