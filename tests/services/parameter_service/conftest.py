"""Real aggregators as processes, jobs on them, and the manager's requests."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.polling import pauses
from tests.services.parameter_service.service_on_slurm import Service
from tiresias.sandbox.cluster import Cluster
from tiresias.services.parameter_service.agent.service_job import ServiceJob
from tiresias.services.parameter_service.aggregator.adopt import adopt_job
from tiresias.services.parameter_service.messages.aggregator_messages import (
    AdoptJob,
    DrainAggregator,
    MigrateTensor,
    ReadStatistics,
)
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import service_identity

DEADLINE_S = 60.0


def until(condition: Callable[[], Any], what: str) -> Any:
    """Return the condition's first true value."""
    deadline, pause = time.monotonic() + DEADLINE_S, pauses()
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {DEADLINE_S:g} s: {what}"
        pause()
    return found


def free_port() -> int:
    """Return a port that no outgoing connection takes while an aggregator is restarted: one below the range of those."""
    while True:
        port = random.randrange(20000, 32000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


class AggregatorProcess:
    """A process on a folder; it can be killed and started again."""

    def __init__(self, folder: Path, key_file: Path, **options: Any) -> None:
        self.folder, self._key_file = folder, key_file
        folder.mkdir()
        self._announce = folder / "announce.json"
        self._config = folder / "config.json"
        self._options = {
            "listen": f"127.0.0.1:{free_port()}",
            "state": str(folder / "state"),
            "memory_mib": 2048,
        } | options
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        content = {**self._options, "service_key_file": str(self._key_file), "announce": str(self._announce)}
        self._config.touch(mode=0o600)
        self._config.write_text(json.dumps(content))
        self._announce.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tiresias.services.parameter_service.aggregator", str(self._config)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log)
        process = self.process
        until(lambda: self._announce.exists() or process.poll() is not None, "an aggregator starts")
        assert self._announce.exists(), self.log
        self.address = json.loads(self._announce.read_text())["address"]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(20)

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(20)

    def restart(self) -> None:
        self.kill()
        self.start()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def end(self) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(20)


class Deployment:
    """Aggregators with one service key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = secrets.token_bytes(32)
        self.key_file = folder / "service.key"
        self.key_file.touch(mode=0o600)
        self.key_file.write_text(self.key.hex())
        self.aggregators: list[AggregatorProcess] = []
        self._channels: dict[str, Channel] = {}

    def aggregator(self, **options: Any) -> AggregatorProcess:
        made = AggregatorProcess(self.folder / f"aggregator-{len(self.aggregators)}", self.key_file, **options)
        self.aggregators.append(made)
        return made

    def job(self, name: str, workers: int, *places: AggregatorProcess, **settings: Any) -> Callable[..., ServiceJob]:
        """Adopt a job, and return what makes the identity of a rank's process."""
        key = secrets.token_bytes(32)
        content = AdoptJob(name, key.hex(), workers, settings.pop("memory_bytes", 1 << 30), **settings)
        for each in places:
            adopt_job(each.address, self.key, content)
        file = self.folder / f"{name}.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps({"job": name, "key": key.hex(), "aggregators": [each.address for each in places]}))
        return lambda rank=0, run=0: ServiceJob(file, name, key, rank, run)

    def request(self, place: AggregatorProcess, content: Any) -> Any:
        """Return the answer to a request of the manager; a new connection each time, as the aggregator may be a new process."""
        channel = Channel.connect(place.address, service_identity("manager"), self.key, 20)
        try:
            payload = bytearray()

            def place_for(_: Any, size: int) -> memoryview:
                payload.extend(bytes(size))
                return memoryview(payload)

            answer = channel.request(content, place=place_for)
            return json.loads(bytes(payload)) if payload else answer
        finally:
            channel.close()

    def statistics(self, place: AggregatorProcess) -> Any:
        return self.request(place, ReadStatistics())

    def tensors(self, place: AggregatorProcess, job: str) -> dict[str, Any]:
        """The tensors of a job of which an aggregator is the master."""
        found = self.statistics(place)["jobs"].get(job, {"tensors": {}})["tensors"]
        return {name: each for name, each in found.items() if each["state"] == "active"}

    def migrate(
        self, job: str, tensor: str, old: AggregatorProcess, new: AggregatorProcess, within_s: float = 5.0
    ) -> Any:
        return self.request(old, MigrateTensor(job, tensor, new.address, within_s))

    def drain(self, old: AggregatorProcess, new: AggregatorProcess, within_s: float = 5.0) -> Any:
        return self.request(old, DrainAggregator(new.address, within_s))

    def end(self) -> None:
        for each in self.aggregators:
            each.end()


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    """A folder in memory, as a site has it; short, as sockets and mappings are there."""
    root = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=root, prefix="ps-") as folder:
        made = Deployment(Path(folder))
        yield made
        made.end()


@pytest.fixture
def service_on() -> Iterator[Callable[..., Service]]:
    """Make a service on a cluster."""
    made: list[Service] = []

    def make(cluster: Cluster, budget: int, **settings: Any) -> Service:
        made.append(Service(cluster, budget, **settings))
        return made[-1]

    yield make
    for service in made:
        service.end()


@pytest.fixture
def service_of(cluster: Cluster, service_on: Callable[..., Service]) -> Callable[..., Service]:
    """Make a service on the shared cluster."""
    return partial(service_on, cluster)
