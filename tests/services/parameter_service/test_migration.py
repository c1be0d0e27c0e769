"""A migration that is disturbed at each of its messages: one master, no lost update, and the training goes on."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.services.parameter_service.conftest import AggregatorProcess, Deployment, until
from tiresias.errors import TiresiasError
from tiresias.services.parameter_service.messages.aggregator_messages import (
    AdoptJob,
    CommitCopy,
    DropJob,
    MigrateTensor,
    MigrationFailed,
    PrepareCopy,
    Subscribe,
    TensorCopy,
    TensorCopyDone,
    WorkerDone,
)
from tiresias.services.wire.channel import Channel, address_of
from tiresias.services.wire.frames import PREFIX_BYTES, unpacked_prefix
from tiresias.services.wire.peer_identity import service_identity
from tiresias.services.wire.session_messages import Accepted, Refused
from tiresias.services.wire.typed_messages import MESSAGE_TYPES

pytest.importorskip("torch", reason="the agent is for PyTorch programs")

from tests.services.parameter_service.training import Training, alone, difference

KIND = "momentum"
NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")


MESSAGES = (AdoptJob, PrepareCopy, TensorCopy, CommitCopy)


class Relay:
    """Between an old and a new master: runs something when a message passes, before it is passed on or in place of its answer."""

    def __init__(self, place: AggregatorProcess) -> None:
        self.place = place
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.seen: list[type[Any]] = []
        self.on: dict[tuple[str, type[Any]], Callable[[], None]] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            there = socket.create_connection(address_of(self.place.address))
        except OSError:
            client.close()
            return
        pending: deque[type[Any]] = deque()  # requests of the old master; it sends one after the other
        back = threading.Thread(target=self._pass, args=(there, client, "answer", pending), daemon=True)
        back.start()
        self._pass(client, there, "request", pending)

    def _pass(self, source: socket.socket, target: socket.socket, side: str, pending: deque[type[Any]]) -> None:
        with suppress(OSError, ConnectionError):
            while True:
                kind, frame = frame_from(source)
                if side == "request" and kind in MESSAGES:
                    self.seen.append(kind)
                    pending.append(kind)
                    self._disturb(side, kind)
                elif side == "answer" and pending:
                    self._disturb(side, pending.popleft())
                target.sendall(frame)
        for sock in (source, target):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _disturb(self, side: str, kind: type[Any]) -> None:
        if work := self.on.pop((side, kind), None):
            work()

    def close(self) -> None:
        self.server.close()


def frame_from(sock: socket.socket) -> tuple[type[Any], bytes]:
    start = exactly(sock, PREFIX_BYTES)
    prefix = unpacked_prefix(start)
    return MESSAGE_TYPES[prefix.kind], start + exactly(sock, prefix.header_bytes + prefix.payload_bytes)


def exactly(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        if not (part := sock.recv(count - len(found))):
            raise ConnectionError
        found += part
    return found


def cut() -> None:
    raise ConnectionError


@pytest.mark.parametrize("side", ["request", "answer"])
@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("fault", ["kill old", "kill new", "cut"])
def test_a_fault_at_each_message_changes_no_result(
    deployment: Deployment, fault: str, kind: type[Any], side: str
) -> None:
    """The fault comes when the first tensor's message passes; the other three migrations follow."""
    old, new = deployment.aggregator(), deployment.aggregator()
    relay = Relay(new)
    training = Training(KIND, deployment.job("job", 2, old))
    disturbed = threading.Event()

    def disturb() -> None:
        if fault != "cut":
            (old if fault == "kill old" else new).restart()
        disturbed.set()
        cut()

    relay.on[side, kind] = disturb
    training.before[20] = lambda: migrate_all(deployment, old, relay)
    training.before[60] = lambda: disturbed.wait(30)
    training.train(0, 120)
    relay.close()
    assert disturbed.is_set()
    assert difference(training.models[0], alone(KIND, 120)) == 0
    masters = [name for place in (old, new) for name in deployment.tensors(place, "job")]
    assert sorted(masters) == sorted(NAMES)  # each tensor has one master
    versions = {each["version"] for place in (old, new) for each in deployment.tensors(place, "job").values()}
    assert versions == {120}


def migrate_all(deployment: Deployment, old: AggregatorProcess, relay: Relay) -> None:
    def accepted(name: str) -> bool:
        with suppress(TiresiasError):  # it is killed meanwhile
            return bool(deployment.request(old, MigrateTensor("job", name, relay.address, 5.0)) == Accepted())
        return False

    for name in NAMES:
        until(lambda name=name: accepted(name), f"the migration of {name} begins")  # type: ignore[misc]


def test_the_messages_of_the_thesis(deployment: Deployment) -> None:
    """MIGRATE_INIT, then TENSOR_COPY and its commit; TENSOR_COPY_DONE of the old master and WORKER_DONE of the new one."""
    old, new = deployment.aggregator(), deployment.aggregator()
    relay = Relay(new)
    training = Training(KIND, deployment.job("job", 2, old))
    channels = [Channel.connect(each.address, service_identity("manager"), deployment.key, 30) for each in (old, new)]
    for channel in channels:
        assert channel.request(Subscribe()) == Accepted()
    training.before[20] = lambda: deployment.request(old, MigrateTensor("job", "0.weight", relay.address))
    training.train(0, 60)
    assert channels[0].receive() == TensorCopyDone("job", "0.weight", relay.address, 2)
    assert channels[1].receive() == WorkerDone("job", "0.weight", 2)
    assert [kind for kind in relay.seen if kind in MESSAGES] == [AdoptJob, PrepareCopy, TensorCopy, CommitCopy]
    relay.close()


def test_a_migration_to_nowhere_changes_nothing(deployment: Deployment) -> None:
    old = deployment.aggregator()
    training = Training(KIND, deployment.job("job", 2, old))
    channel = Channel.connect(old.address, service_identity("manager"), deployment.key, 30)
    channel.request(Subscribe())
    training.before[20] = lambda: deployment.request(old, MigrateTensor("job", "0.bias", "127.0.0.1:1"))
    training.train(0, 60)
    event = channel.receive()
    assert isinstance(event, MigrationFailed)
    assert (event.tensor, event.epoch) == ("0.bias", 1)
    assert "Connection refused" in event.reason
    assert difference(training.models[0], alone(KIND, 60)) == 0


def test_a_refused_copy_is_rolled_back(deployment: Deployment) -> None:
    """The new master drops the job before the copy arrives: the old one goes on, under an epoch above the staged one."""
    old, new = deployment.aggregator(), deployment.aggregator(memory_mib=1)
    training = Training(KIND, deployment.job("job", 2, old))
    relay = Relay(new)
    relay.on["request", TensorCopy] = lambda: refuse_all(deployment, new)
    training.before[20] = lambda: deployment.request(old, MigrateTensor("job", "0.bias", relay.address))
    training.train(0, 100)
    assert difference(training.models[0], alone(KIND, 100)) == 0
    masters = deployment.tensors(old, "job") | deployment.tensors(new, "job")
    assert masters["0.bias"]["version"] == 100
    relay.close()


def refuse_all(deployment: Deployment, place: AggregatorProcess) -> None:
    deployment.request(place, DropJob("job"))


def test_a_tensor_moves_without_a_training_within_a_bound(deployment: Deployment) -> None:
    old, new = deployment.aggregator(), deployment.aggregator()
    training = Training(KIND, deployment.job("job", 2, old))
    training.train(0, 20)
    deployment.drain(old, new, within_s=0.5)
    until(lambda: len(deployment.tensors(new, "job")) == 4, "all tensors move")
    assert deployment.tensors(old, "job") == {}
    old.restart()  # it remembers where they are
    moved = deployment.statistics(old)["jobs"]["job"]["moved"]
    assert {each["address"] for each in moved.values()} == {new.address}


@pytest.mark.parametrize(
    ("tensor", "text"), [("none", "has no tensor none"), ("0.bias", "is on 127")], ids=["unknown tensor", "same place"]
)
def test_wrong_migrations_are_refused(deployment: Deployment, tensor: str, text: str) -> None:
    old = deployment.aggregator()
    Training(KIND, deployment.job("job", 2, old)).train(0, 2)
    refused = deployment.migrate("job", tensor, old, old)
    assert isinstance(refused, Refused)
    assert text in refused.text
