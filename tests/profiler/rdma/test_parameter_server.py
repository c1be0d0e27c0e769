"""A parameter server over RDMA on two machines: tensor sizes and skew come out of the recordings of its processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.profiler.rdma.guest import Guest, run
from tests.profiler.tensors import tensors
from tiresias.profiler.analysis import Profile, analyze
from tiresias.profiler.iteration.shape import SERVERS
from tiresias.profiler.recordings.recording import Recording

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600), pytest.mark.xdist_group("guests")]
BYTES = 256 << 10  # that models are scaled down to
ITERATIONS, COMPUTE, WORKERS = 12, 400_000, 2  # COMPUTE in microseconds
ADDRESSES = ("10.0.0.1", "10.0.0.2")
INTRODUCTION = [32, 1, 1]  # bytes that the ends of a connection exchange over TCP
MODELS = {"vgg11": "consolidate", "resnet50": "spread"}


def scaled(model: str) -> list[int]:
    scale = max(sum(tensors(model)) // BYTES, 1)
    return [max(size // scale // 4, 1) * 4 for size in tensors(model)]


def parts(model: str) -> list[list[int]]:
    """Tensors go round robin to the servers."""
    return [scaled(model)[server :: len(ADDRESSES)] for server in range(len(ADDRESSES))]


def script(number: int) -> str:
    """A server and a worker on each machine."""
    lines = []
    for port, model in enumerate(MODELS, 7000):
        sizes = [",".join(map(str, part)) for part in parts(model)]
        servers = " ".join(f"{address} {port} {part}" for address, part in zip(ADDRESSES, sizes, strict=True))
        lines += [
            f"recorded {model} /share/ps server {port} {WORKERS} {ITERATIONS} {sizes[number]} & server=$!",
            f"recorded {model} /share/ps worker {COMPUTE} {ITERATIONS} {servers}",
            "wait $server",
        ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def folders(prepare: Callable[..., Path]) -> list[Path]:
    folders = [prepare(f"guest{number}", ps=("ps", "-libverbs")) for number in range(len(ADDRESSES))]
    run([Guest(folder, script(number)) for number, folder in enumerate(folders)], timeout=540)
    return folders


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def profile(model: str, folders: list[Path], recordings: Callable[[Path, str], list[Recording]]) -> Profile:
    return analyze([each for folder in folders for each in recordings(folder, model)])


def test_model_and_skew(model: str, profile: Profile) -> None:
    true = scaled(model)
    assert profile.shape.kind == SERVERS
    assert (profile.shape.workers, len(profile.shape.servers), profile.iterations) == (
        WORKERS,
        len(ADDRESSES),
        ITERATIONS,
    )
    assert profile.shape.model == pytest.approx(sum(true), rel=0.001)
    assert profile.skew == pytest.approx(max(true) / sum(true), abs=0.001)
    assert sorted(server.messages for server in profile.shape.servers) == sorted(len(part) for part in parts(model))
    assert profile.verdict.decision == MODELS[model]


def test_every_tensor_to_the_byte(model: str, profile: Profile) -> None:
    """What a server sends to a worker, and a worker to it, is its part of the model in each iteration."""
    expected = [Counter({size: ITERATIONS * count for size, count in Counter(part).items()}) for part in parts(model)]
    found = [Counter(stream.size.tolist()) - Counter(INTRODUCTION) for stream in profile.traffic.streams]
    assert len(found) == 2 * WORKERS * len(ADDRESSES)
    assert [found.count(each) for each in expected] == [2 * WORKERS] * len(ADDRESSES)


def test_nothing_is_missing(profile: Profile) -> None:
    assert not profile.notes
    assert all("guest" in node for node in profile.traffic.nodes)
