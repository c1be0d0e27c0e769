"""Real aggregators and workers as processes, for the benchmarks of the parameter service; no Slurm and no PyTorch.

A worker runs iterations: its GPU phase, then it pushes and pulls every block of its model. The GPU phase is a sleep, or kernels
on a real GPU (gpu_phases.py).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import ServiceJob
from tiresias.services.parameter_service.agent.tensor_directory import FileDirectory
from tiresias.services.parameter_service.aggregator.adopt import adopt_job
from tiresias.services.parameter_service.messages.agent_messages import InitTensor
from tiresias.services.parameter_service.messages.aggregator_messages import AdoptJob, ReadStatistics
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import service_identity

Phase = Callable[[float], None]
JOB_BYTES = 64 << 30


def state_folder(needed_bytes: int) -> str | None:
    """Return /dev/shm where it has the space; None for the default folder of temporary files."""
    shm = Path("/dev/shm")
    fits = shm.is_dir() and os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > needed_bytes
    return str(shm) if fits else None


class AggregatorProcesses:
    """Aggregators in a folder of their own; a context manager.

    Args:
        count: How many are started.
        needed_bytes: Memory of all master copies.
        settings: Further keys of their configuration.
    """

    def __init__(self, count: int, needed_bytes: int, **settings: Any) -> None:
        self._temporary = tempfile.TemporaryDirectory(dir=state_folder(needed_bytes), prefix="ps-bench-")
        self.folder, self.key, self._settings = Path(self._temporary.name), secrets.token_bytes(32), settings
        self.key_file = self.folder / "key"
        self.key_file.touch(0o600)
        self.key_file.write_text(self.key.hex())
        self.processes: list[subprocess.Popen[bytes]] = []
        self.addresses: list[str] = []
        for _ in range(count):
            self.start()

    def start(self) -> str:
        """Start one more; return its address."""
        folder = self.folder / str(len(self.processes))
        folder.mkdir()
        announce, config = folder / "announce", folder / "config"
        config.touch(0o600)
        content = {
            "listen": "127.0.0.1:0",
            "state": str(folder / "state"),
            "service_key_file": str(self.key_file),
            "announce": str(announce),
            "memory_mib": JOB_BYTES >> 20,
        }
        config.write_text(json.dumps(content | self._settings))
        command = [sys.executable, "-m", "tiresias.services.parameter_service.aggregator", str(config)]
        self.processes.append(subprocess.Popen(command))
        while not announce.exists():
            if self.processes[-1].poll() is not None:
                raise RuntimeError("an aggregator has ended")
            time.sleep(0.01)
        self.addresses.append(json.loads(announce.read_text())["address"])
        return self.addresses[-1]

    def job(self, name: str, workers: int, placed: Mapping[str, int], **settings: Any) -> Callable[[int], ServiceJob]:
        """Hand a job to its aggregators; return what makes the identity of a rank.

        Args:
            name: Its name.
            workers: Its ranks.
            placed: The number of the aggregator of each block.
            settings: Further settings of AdoptJob.
        """
        key, file = secrets.token_bytes(32), self.folder / f"{name}.json"
        addresses = {block: self.addresses[number] for block, number in placed.items()}
        used = sorted(set(addresses.values()))
        for address in used:
            adopt_job(address, self.key, AdoptJob(name, key.hex(), workers, JOB_BYTES, **settings))
        file.touch(0o600)
        file.write_text(json.dumps({"job": name, "key": key.hex(), "aggregators": used, "tensors": addresses}))
        return lambda rank: ServiceJob(file, name, key, rank, 0, settings.get("compress", "none"))

    def request(self, number: int, content: Any) -> Any:
        """Return the answer to a request of the service."""
        channel = Channel.connect(self.addresses[number], service_identity("bench"), self.key, 600)
        payload = bytearray()

        def place(_: Any, count: int) -> memoryview:
            payload.extend(bytes(count))
            return memoryview(payload)

        try:
            answer = channel.request(content, place=place)
        finally:
            channel.close()
        return json.loads(bytes(payload)) if payload else answer

    def statistics(self, number: int) -> Any:
        """Return the statistics of an aggregator."""
        return self.request(number, ReadStatistics())

    def work(self, job: str) -> dict[str, float]:
        """Return the measured CPU seconds of each block of a job in an iteration."""
        found: dict[str, float] = {}
        for number in range(len(self.addresses)):
            tensors = self.statistics(number)["jobs"].get(job, {"tensors": {}})["tensors"]
            found |= {name: each["cpu_s"] / each["updates"] for name, each in tensors.items() if each["updates"]}
        return found

    def __enter__(self) -> AggregatorProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        self._temporary.cleanup()


class EmulatedJob(NamedTuple):
    """The workers of one job.

    Attributes:
        job: Makes the identity of a rank.
        sizes: Bytes of each block.
        workers: The number of ranks.
        gpu_phase_s: Seconds of the GPU phase of an iteration.
        offset_s: Seconds after the common start at which it begins.
        before: Called on rank 0 before an iteration, with its number.
    """

    job: Callable[[int], ServiceJob]
    sizes: Mapping[str, int]
    workers: int
    gpu_phase_s: float
    offset_s: float = 0.0
    before: Callable[[int], None] | None = None


class Iteration(NamedTuple):
    """Times of time.monotonic(): the begin of the GPU phase, its end, and when every block was pulled."""

    begin: float
    pushed: float
    end: float


def run_jobs(jobs: Sequence[EmulatedJob], iterations: int, phases: Sequence[Phase] = ()) -> list[list[Iteration]]:
    """Run all jobs at once, each worker in a process; return the iterations of rank 0 of each job.

    Args:
        jobs: The jobs.
        iterations: Of each.
        phases: The GPU phase of each worker, in the order of jobs and ranks; a sleep where there are none.
    """
    context = multiprocessing.get_context("fork")
    queue: Any = context.SimpleQueue()
    ranks = [(number, rank) for number, job in enumerate(jobs) for rank in range(job.workers)]
    barrier = context.Barrier(len(ranks))
    processes = [
        context.Process(
            target=_worker,
            args=(jobs[number], number, rank, iterations, phases[at] if phases else time.sleep, barrier, queue),
        )
        for at, (number, rank) in enumerate(ranks)
    ]
    for process in processes:
        process.start()
    found = dict(queue.get() for _ in processes)
    for process in processes:
        process.join()
    if problems := [each for each in found.values() if isinstance(each, str)]:
        raise RuntimeError(problems[0])
    return [found[number, 0] for number in range(len(jobs))]


def _worker(job: EmulatedJob, number: int, rank: int, count: int, phase: Phase, barrier: Any, queue: Any) -> None:
    try:
        queue.put(((number, rank), _iterations(job, rank, count, phase, barrier)))
    except BaseException as error:
        barrier.abort()
        queue.put(((number, rank), f"{type(error).__name__}: {error}"))


def _iterations(job: EmulatedJob, rank: int, count: int, phase: Phase, barrier: Any) -> list[Iteration]:
    identity = job.job(rank)
    client = ServiceClient(identity, FileDirectory(identity.file))
    tensors = [ClientTensor(name, size, memoryview(bytearray(size))) for name, size in job.sizes.items()]
    client.assign(tensors)
    _declare(client, tensors, rank)
    gradient = np.full(max(job.sizes.values()) // 4, 1e-3, np.float32)
    parts = [gradient[: tensor.bytes // 4].data.cast("B") for tensor in tensors]
    barrier.wait()
    time.sleep(job.offset_s)
    found = []
    for at in range(count):
        if job.before is not None and rank == 0:
            job.before(at)
        begin = time.monotonic()
        phase(job.gpu_phase_s)
        pushed = time.monotonic()
        for tensor, data in zip(tensors, parts, strict=True):
            client.push(tensor, lambda data=data: [data])  # type: ignore[misc]
        client.complete(tensors)
        found.append(Iteration(begin, pushed, time.monotonic()))
    client.close()
    return found


def _declare(client: ServiceClient, tensors: Sequence[ClientTensor], rank: int) -> None:
    for tensor in tensors:
        if rank == 0:
            options = {"lr": 0.1, "momentum": 0.9}
            client.declare(
                tensor, InitTensor(tensor.name, (tensor.bytes // 4,), "float32", "sgd", options), bytes(tensor.bytes)
            )
        else:
            client.await_declared(tensor, 0)


def seconds_of_iterations(found: Sequence[Sequence[Iteration]], warm_up: int) -> list[float]:
    """Return the mean seconds of an iteration of each job, while all of them run and after the first ones."""
    begin = max(each[warm_up].begin for each in found)
    end = min(each[-1].end for each in found)
    inside = [[one for one in each if one.begin >= begin and one.end <= end] for each in found]
    return [statistics.fmean(one.end - one.begin for one in each) for each in inside]
