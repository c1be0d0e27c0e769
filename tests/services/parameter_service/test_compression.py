"""A job whose gradients and parameters are compressed: the same bits, and one line for what is not of its registration."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.services.parameter_service.conftest import AggregatorProcess, Deployment
from tests.services.parameter_service.numpy_training import OPTIONS, RANKS, SIZE, TENSORS, Array, gradient, initial
from tiresias.errors import UsageError
from tiresias.services.parameter_service.agent.aggregator_links import StepRefused
from tiresias.services.parameter_service.agent.client_tensor import ClientTensor
from tiresias.services.parameter_service.agent.service_client import ServiceClient
from tiresias.services.parameter_service.agent.service_job import ServiceJob, read_job_file
from tiresias.services.parameter_service.agent.tensor_directory import FileDirectory
from tiresias.services.parameter_service.aggregator import adopt
from tiresias.services.parameter_service.messages.agent_messages import InitTensor, Parameters, Pull, Push
from tiresias.services.parameter_service.messages.aggregator_messages import AdoptJob, DropJob
from tiresias.services.wire import refusal_codes
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.session_messages import Refused
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE, SHUFFLE_ZLIB, most_packed_bytes, packed

STEPS = 60
GRADIENT = np.linspace(-1e-3, 1e-3, SIZE, dtype=np.float32)


class ServedRank:
    """A rank of the training in numpy, with the agent."""

    def __init__(self, job: ServiceJob) -> None:
        self.rank, self.client, self.parameters = job.rank, ServiceClient(job, FileDirectory(job.file)), initial(1)
        self.tensors = [ClientTensor(name, 4 * SIZE, self.parameters[name].data.cast("B")) for name in TENSORS]
        self.client.assign(self.tensors)
        for tensor in self.tensors:
            if self.rank:
                self.client.await_declared(tensor, 0)
            else:
                content = InitTensor(tensor.name, (SIZE,), "float32", "sgd", OPTIONS)
                self.client.declare(tensor, content, tensor.place)

    def push(self, step: int) -> None:
        for tensor in self.tensors:
            data = gradient(self.parameters[tensor.name], step, self.rank).data.cast("B")
            self.client.push(tensor, lambda data=data: [data])  # type: ignore[misc]


def trained(job: Callable[..., ServiceJob], compress: str, before: Callable[[int], Any] = id) -> dict[str, Array]:
    """Return the parameters after STEPS steps of all ranks; rank 0 calls `before` before each."""

    def train(number: int) -> dict[str, Array]:
        rank = ServedRank(job(number)._replace(compress=compress))
        try:
            for step in range(STEPS):
                if number == 0:
                    before(step)
                rank.push(step)
                rank.client.complete(rank.tensors)
        finally:
            rank.client.close()
        return rank.parameters

    with ThreadPoolExecutor(RANKS) as pool:
        first, second = pool.map(train, range(RANKS))
    assert all(np.array_equal(first[name], second[name]) for name in TENSORS)
    return first


@pytest.mark.parametrize("protect", ["none", "mac"])
def test_the_bits_are_those_without_compression(deployment: Deployment, protect: str) -> None:
    one, two = deployment.aggregator(protect=protect), deployment.aggregator(protect=protect)
    plain = trained(deployment.job("plain", RANKS, one), COMPRESS_NONE)
    job = deployment.job("compressed", RANKS, one, two, compress=SHUFFLE_ZLIB)

    def before(step: int) -> None:
        if step == 20:
            one.restart()
        if step == 40:
            deployment.drain(one, two)

    compressed = trained(job, SHUFFLE_ZLIB, before)
    assert all(plain[name].tobytes() == compressed[name].tobytes() for name in TENSORS)


# -- what is refused ----------------------------------------------------------------------------------------------------------


class RawRank:
    """A rank that uses the wire itself, with one tensor."""

    def __init__(self, deployment: Deployment, place: AggregatorProcess, compress: str = SHUFFLE_ZLIB) -> None:
        self.job = deployment.job("job", 1, place, compress=compress)(0)
        self.place = place
        self.connect()
        content = InitTensor("a", (SIZE,), "float32", "sgd", {"lr": 1.0})
        self.channel.request(content, np.zeros(SIZE, np.float32).data)

    def connect(self) -> None:
        self.channel = Channel.connect(self.place.address, agent_identity(self.job.name, 0, 0), self.job.key, 20)

    def push(self, payload: bytes, compress: str = SHUFFLE_ZLIB) -> Any:
        """Return the answer to a push and a pull."""
        self.channel.send(Push("a", 1, 0, compress=compress), payload)
        return self.channel.request(Pull("a", 1, 1), place=lambda _, size: memoryview(bytearray(size)))


def payload_of(data: Array) -> bytes:
    found = packed(data.data.cast("B"), 4)
    assert found
    return b"".join(found)


def bomb() -> bytes:
    """Planes of 3 MiB, in fewer bytes than a gradient of 16 KiB."""
    made = zlib.compressobj(9, zlib.DEFLATED, -15)
    plane = made.compress(bytes(3 << 20)) + made.flush()
    return b"\4" + struct.pack("!BQ", 1, len(plane)) * 4 + plane * 4


MALFORMED = {
    "a stream that expands": bomb(),
    "truncated": payload_of(GRADIENT)[:-1],
    "of another length": payload_of(GRADIENT[:-4]),
    "no compressed payload": bytes(1000),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_gradient_ends_its_connection_alone(deployment: Deployment, kind: str) -> None:
    place = deployment.aggregator()
    rank = RawRank(deployment, place)
    refused = rank.push(MALFORMED[kind])
    assert isinstance(refused, Refused)
    assert "a compressed payload" in refused.text
    rank.connect()
    assert rank.push(payload_of(GRADIENT)) == Parameters("a", 1, compress=SHUFFLE_ZLIB)
    trained(deployment.job("other", RANKS, place), COMPRESS_NONE)


REFUSED = {
    "without compression in its registration": (
        COMPRESS_NONE,
        SHUFFLE_ZLIB,
        payload_of(GRADIENT),
        "is registered with 'none'",
    ),
    "of another compression": (SHUFFLE_ZLIB, "zstd", bytes(100), "compressed by 'zstd' from rank 0"),
    "longer than the gradient": (
        SHUFFLE_ZLIB,
        SHUFFLE_ZLIB,
        bytes(most_packed_bytes(4 * SIZE) + 1),
        f"declared: {4 * SIZE} bytes",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_gradient_is_refused_before_memory_is_allocated(deployment: Deployment, kind: str) -> None:
    registered, compress, payload, text = REFUSED[kind]
    rank = RawRank(deployment, deployment.aggregator(), registered)
    rank.channel.send(Push("a", 1, 0, compress=compress), payload)
    refused = rank.channel.receive()
    assert isinstance(refused, Refused)
    assert (refused.code, text in refused.text) == (refusal_codes.FATAL, True), refused.text


def test_a_rank_whose_file_has_no_compression_ends_with_one_line(deployment: Deployment) -> None:
    job = deployment.job("job", RANKS, deployment.aggregator(), compress=SHUFFLE_ZLIB)
    rank = ServedRank(job(0)._replace(compress=SHUFFLE_ZLIB))
    with pytest.raises(StepRefused, match="the job file has 'none': register the job anew"):
        ServedRank(job(1))
    rank.client.close()


def test_numbers_that_do_not_become_smaller_are_sent_as_they_are(deployment: Deployment) -> None:
    rank = RawRank(deployment, deployment.aggregator())
    chance = np.random.default_rng(0).integers(0, 256, 4 * SIZE, np.uint8).view(np.float32)
    finite = np.where(np.isfinite(chance), chance, np.float32(1)).astype(np.float32)
    assert isinstance(rank.push(finite.tobytes(), COMPRESS_NONE), Parameters)


def test_an_unknown_compression_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    place = deployment.aggregator()
    refused = deployment.request(place, AdoptJob("x", "0" * 64, 1, 1 << 20, compress="zstd"))
    assert "compress is none or shuffle-zlib, not 'zstd'" in refused.text
    file = tmp_path / "job.json"
    file.touch(0o600)
    file.write_text(json.dumps({"job": "x", "key": "0" * 64, "aggregators": [place.address], "compress": "zstd"}))
    with pytest.raises(UsageError, match="compress is none or shuffle-zlib"):
        read_job_file(file)


def test_adopt_writes_the_choice_to_the_job_file(deployment: Deployment, tmp_path: Path) -> None:
    place, out = deployment.aggregator(), tmp_path / "job.json"
    words = ["x", place.address, "--service-key", str(deployment.key_file), "--workers", str(RANKS), "--out", str(out)]
    assert adopt.main([*words, "--compress", SHUFFLE_ZLIB]) == 0
    content = read_job_file(out)
    job = lambda rank: ServiceJob(out, "x", bytes.fromhex(content["key"]), rank, 0)  # noqa: E731
    assert content["compress"] == SHUFFLE_ZLIB
    trained(job, content["compress"])


def test_compression_counts_in_the_memory_of_a_job(deployment: Deployment) -> None:
    place, found = deployment.aggregator(), {}
    for compress in (COMPRESS_NONE, SHUFFLE_ZLIB):
        RawRank(deployment, place, compress)
        found[compress] = deployment.statistics(place)["jobs"]["job"]["memory_bytes"]
        deployment.request(place, DropJob("job"))
    assert found[SHUFFLE_ZLIB] - found[COMPRESS_NONE] == 3 * 4 * SIZE
