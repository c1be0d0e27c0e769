"""Jobs that call collectives: model, iterations and intensity from the calls, checked against the wire."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.profiler.recording import Link, Network, Process, ticks
from tests.profiler.tensors import tensors
from tiresias.profiler.analysis import Profile, analyze
from tiresias.profiler.iteration.collectives import view
from tiresias.profiler.network.cross_check import ports
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.communicators import CommunicatorGroup
from tiresias.profiler.recordings.recording import Recording, read
from tiresias.profiler.views.profile_report import as_json, report

GIGABYTE = 1e9
ITERATIONS = 20


class Job:
    """Ranks on hosts, which call collectives."""

    def __init__(self, hosts: list[str], known: bool = True) -> None:
        self.net = Network()
        self.ranks = [self.net.process(host, 100 + rank) for rank, host in enumerate(hosts)]
        self.known = (len(hosts), len(set(hosts))) if known else (0, 0)
        self.channels: dict[tuple[int, int, int, int], int] = {}

    def call(
        self, time: float, function: int, size: int, ranks: list[int] | None = None, communicator: int = 7
    ) -> None:
        """By each of these ranks, one a little after the other."""
        for rank in range(len(self.ranks)) if ranks is None else ranks:
            channel = self.channel(rank, communicator, function, layout.ALL_RANKS)
            self.ranks[rank].record(time + 1e-5 * rank, channel, layout.COLLECT, size, done=0)

    def send(self, time: float, here: int, there: int, size: int) -> None:
        for rank, peer, operation in ((here, there, layout.SEND), (there, here, layout.RECV)):
            channel = self.channel(rank, 7, layout.POINT_TO_POINT, peer)
            self.ranks[rank].record(time, channel, operation, size, done=0)

    def channel(self, rank: int, communicator: int, function: int, peer: int) -> int:
        table = self.ranks[rank].channels
        key = (rank, communicator, function, peer)
        if key not in self.channels:
            group = np.array([(communicator, *self.known)], layout.GROUP)
            ends = [
                (layout.COMMUNICATOR, port, qp, np.void(group.tobytes()), 0, np.void(bytes(18)))
                for port, qp in ((0, rank), (function, peer))
            ]
            table.append((layout.COLLECTIVE, function, ticks(0), 0, 0, *ends, np.void(bytes(8))))
            self.channels[key] = len(table) - 1
        return self.channels[key]

    def recordings(self, folder: Path) -> list[Recording]:
        return [read(path) for path in self.net.write(folder)]

    def analyze(self, folder: Path, bandwidth: float = GIGABYTE) -> Profile:
        return analyze(self.recordings(folder), bandwidth=bandwidth)


def buckets(sizes: list[int], limit: int) -> list[int]:
    """As DDP joins them: from the last layer on, full when there is more than the limit."""
    filled = [0]
    for size in reversed(sizes):
        if filled[-1] >= limit:
            filled.append(0)
        filled[-1] += size
    return filled


def train(job: Job, sizes: list[int], iterations: int = ITERATIONS) -> None:
    """The parameters' way to all ranks, then iterations of a second; the first one has its buckets cut otherwise."""
    job.call(0.1, layout.BROADCAST, sum(sizes))
    for iteration in range(1, iterations + 1):
        joined = sizes if iteration > 1 else [sum(sizes)]
        for number, size in enumerate(joined):
            job.call(iteration + 0.6 + 0.3 * number / len(joined), layout.ALL_REDUCE, size)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_data_parallel_training(tmp_path: Path, ranks: int, known: bool) -> None:
    """NCCL passes the number of ranks from 2.27 on only; before, it is that of the ranks recorded."""
    job = Job([f"gpu0{rank // 2}" for rank in range(ranks)], known)
    sizes = buckets(tensors("resnet50"), 25 << 20)
    train(job, sizes)
    profile = job.analyze(tmp_path)
    assert (profile.shape.kind, profile.shape.workers) == ("collective all-reduce", ranks)
    assert profile.shape.model == sum(tensors("resnet50"))
    assert profile.period
    assert profile.period.seconds == pytest.approx(1, rel=0.01)
    assert profile.iterations == pytest.approx(ITERATIONS, abs=1)
    assert profile.largest == max(sizes)
    assert profile.skew is None
    wire = 2 * (ranks - 1) / ranks * sum(sizes)
    assert profile.intensity == pytest.approx(wire / GIGABYTE / profile.compute)
    assert profile.compute == pytest.approx(0.7, abs=0.08)
    assert not [note for note in profile.notes if "not recorded" in note], "collectives are no strangers"


@pytest.mark.parametrize(("gigabytes", "decision"), [(12.5, "spread"), (0.1, "consolidate")])
def test_the_verdict_is_by_intensity(tmp_path: Path, gigabytes: float, decision: str) -> None:
    job = Job(["gpu01", "gpu02"])
    train(job, buckets(tensors("vgg16"), 25 << 20))
    profile = job.analyze(tmp_path, gigabytes * GIGABYTE)
    assert profile.verdict.decision == decision
    assert "collective all-reduce of 2" in profile.verdict.reasons[0]


@pytest.mark.parametrize(("model", "skew"), [("vgg16", 0.743), ("resnet50", 0.092), ("alexnet", 0.618)])
def test_small_buckets_show_the_largest_tensor(tmp_path: Path, model: str, skew: float) -> None:
    job = Job(["gpu01", "gpu02"])
    train(job, buckets(tensors(model), 1 << 20))
    profile = job.analyze(tmp_path)
    assert profile.share == pytest.approx(max(tensors(model)) / sum(tensors(model)), abs=0.02)
    assert profile.share == pytest.approx(skew, abs=0.02)
    assert as_json(profile)["largest_share"] == profile.share
    assert as_json(profile)["skew"] is None


def test_the_report_speaks_of_collectives(tmp_path: Path) -> None:
    job = Job(["gpu01", "gpu02"])
    train(job, [30 << 20, 10 << 20])
    console = Console(width=100, record=True, file=StringIO())
    for part in report(job.analyze(tmp_path)):
        console.print(part)
    output = console.export_text()
    for words in (
        "collective all-reduce, 2 processes",
        "40.0 MiB",
        "largest collective",
        "30.0 MiB, 75.0% of the model",
    ):
        assert words in output


def test_sharded_training(tmp_path: Path) -> None:
    """Parts of layers are gathered twice and their gradients scattered; a gather of all is no part of the model."""
    job = Job([f"gpu0{rank}" for rank in range(4)])
    layers = [40_000_000, 24_000_000, 16_000_000]
    for iteration in range(ITERATIONS):
        job.call(iteration + 0.05, layout.BROADCAST, 90_000_000)
        for number, layer in enumerate(layers):
            job.call(iteration + 0.1 + 0.05 * number, layout.ALL_GATHER, layer // 4)
            job.call(iteration + 0.5 - 0.05 * number, layout.ALL_GATHER, layer // 4)
            job.call(iteration + 0.55 - 0.05 * number, layout.REDUCE_SCATTER, layer // 4)
    profile = job.analyze(tmp_path)
    assert (profile.shape.kind, profile.shape.workers) == ("collective reduce-scatter", 4)
    assert (profile.shape.model, profile.largest, profile.share) == (sum(layers), max(layers), 0.5)
    wire = 90_000_000 + 3 * 3 * sum(layers) / 4
    assert profile.intensity == pytest.approx(wire / GIGABYTE / profile.compute)


def test_pipelines_of_ranks(tmp_path: Path) -> None:
    """Two stages, each on two ranks that reduce their own layers; activations go from stage to stage."""
    job = Job([f"gpu0{rank}" for rank in range(4)])
    for iteration in range(ITERATIONS):
        for part in range(4):
            for here, there in ((0, 2), (1, 3)):
                job.send(iteration + 0.05 * part, here, there, 3_000_000)
                job.send(iteration + 0.4 + 0.05 * part, there, here, 3_000_000)
        job.call(iteration + 0.7, layout.ALL_REDUCE, 60_000_000, [0, 1], communicator=1)
        job.call(iteration + 0.7, layout.ALL_REDUCE, 80_000_000, [2, 3], communicator=2)
    profile = job.analyze(tmp_path)
    assert profile.shape.model == 80_000_000, "of the larger stage"
    between = {(each.sender, each.receiver): each.bytes for each in profile.streams if each.receiver < 4}
    assert between == dict.fromkeys(((0, 2), (2, 0), (1, 3), (3, 1)), 12000000)
    assert profile.bytes == 4 * 12_000_000 + 2 * 60_000_000 + 2 * 80_000_000


def test_one_rank_does_not_make_the_model(tmp_path: Path) -> None:
    job = Job([f"gpu0{rank}" for rank in range(4)])
    for iteration in range(ITERATIONS):
        job.call(iteration, layout.ALL_REDUCE, 1_000_000, [0, 1, 2])
        job.call(iteration, layout.ALL_REDUCE, 9_000_000, [3])
    assert job.analyze(tmp_path).shape.model == 1_000_000


def test_calls_that_reduce_nothing_are_no_training(tmp_path: Path) -> None:
    job = Job(["gpu01", "gpu02"])
    for iteration in range(ITERATIONS):
        job.call(iteration, layout.BROADCAST, 1_000_000)
    profile = job.analyze(tmp_path)
    assert (profile.verdict.decision, profile.shape.workers) == ("unknown", 0)


def connect(job: Job) -> dict[tuple[int, int], Link]:
    ranks = range(len(job.ranks))
    return {(a, b): job.net.connect(job.ranks[a], job.ranks[b]) for a in ranks for b in ranks if a != b}


def carry(job: Job, share: float, iterations: int = ITERATIONS, size: int = 80_000_000) -> None:
    """All-reduces of `size` bytes, and the given share of them along a ring of connections, in slices."""
    links = connect(job)
    ranks = len(job.ranks)
    for iteration in range(iterations):
        job.call(iteration + 0.5, layout.ALL_REDUCE, size)
        for rank in range(ranks):
            left = share * size * 2 * (ranks - 1) / ranks
            for part in range(10):
                job.net.send(links[rank, (rank + 1) % ranks], iteration + 0.51 + 0.01 * part, round(left / 10))


@pytest.mark.parametrize(("share", "note"), [
    (1.0, None), (0.9, None), (1.07, None), (0.5, r"120,000,000 bytes along a ring, 60,000,000 .* not recorded"),
    (1.6, "others sent"),
])  # fmt: skip
def test_the_wire_is_held_against_the_collectives(tmp_path: Path, share: float, note: str | None) -> None:
    job = Job([f"gpu0{rank}" for rank in range(4)])
    carry(job, share, iterations=1)
    found = [each for each in job.analyze(tmp_path).notes if "along a ring" in each]
    assert len(found) == (4 if note else 0)
    assert all(note and re.search(note, each) for each in found)


def test_ranks_of_a_host_share_one_way_out(tmp_path: Path) -> None:
    """A ring through eight ranks on two hosts leaves each host once; the rest of it stays inside."""
    job = Job(["gpu01"] * 4 + ["gpu02"] * 4)
    carry(job, 1.0)
    profile = job.analyze(tmp_path)
    assert not [each for each in profile.notes if "along a ring" in each]
    assert profile.groups, "the calls are looked at"


def test_what_stays_on_a_host_needs_no_wire(tmp_path: Path) -> None:
    """Layers that are split over the ranks of a host have them reduce more than gradients."""
    job = Job(["gpu01"] * 2 + ["gpu02"] * 2, known=False)
    for iteration in range(ITERATIONS):
        for pair in ([0, 1], [2, 3]):
            job.call(iteration + 0.1, layout.ALL_REDUCE, 500_000_000, pair, communicator=10 + pair[0])
    carry(job, 1.0)
    assert not [each for each in job.analyze(tmp_path).notes if "along a ring" in each]


def test_one_host_or_a_part_is_not_compared(tmp_path: Path) -> None:
    alone, cut = Job(["gpu01"] * 2), Job(["gpu01", "gpu02"])
    for job, name in ((alone, "alone"), (cut, "cut")):
        carry(job, 0.1)
        (tmp_path / name).mkdir()
    assert not [each for each in alone.analyze(tmp_path / "alone").notes if "along" in each]
    for process in cut.ranks:
        (tmp_path / "cut" / f"{process.host}.net").write_bytes(process.content(dropped=5))
    found = analyze([read(path) for path in sorted((tmp_path / "cut").iterdir())])
    assert not [each for each in found.notes if "along" in each]


def test_the_wire_counts_where_collectives_are_the_smaller_part(tmp_path: Path) -> None:
    """Parameter servers whose workers now and then reduce a loss."""
    job = Job(["gpu01", "gpu02", "gpu03"])
    links = connect(job)
    for iteration in range(ITERATIONS):
        for worker in (0, 1):
            for number, size in enumerate(tensors("alexnet")):
                job.net.send(links[worker, 2], iteration + 0.3 + 0.01 * number, size)
                job.net.send(links[2, worker], iteration + 0.6 + 0.01 * number, size)
        job.call(iteration + 0.9, layout.ALL_REDUCE, 4, [0, 1])
    profile = job.analyze(tmp_path)
    assert profile.shape.kind == "parameter servers"
    assert profile.skew == pytest.approx(0.618, abs=0.01)
    assert profile.groups == {}


def test_hostile_channels(tmp_path: Path) -> None:
    """Ranks, functions and names that cannot be."""
    job = Job(["gpu01", "gpu02"])
    train(job, [1000, 2000])
    for channel, (qp, port, group) in enumerate([(2**32 - 1, 0, b"\xff" * 16), (0, 2**16 - 1, bytes(16))]):
        end = (layout.COMMUNICATOR, port, qp, np.void(group), 0, np.void(bytes(18)))
        job.ranks[channel].channels.append((layout.COLLECTIVE, 1, ticks(0), 0, 0, end, end, np.void(bytes(8))))
        row = (0.5, len(job.ranks[channel].channels) - 1, layout.COLLECT, 1 << 39)
        job.ranks[channel].record(*row)
    profile = job.analyze(tmp_path)
    assert all(np.isfinite([profile.bytes, profile.shape.model, profile.largest]))


@given(st.integers(1, 10**6), st.integers(1, 10**9))
def test_factors(ranks: int, size: int) -> None:
    """What leaves all ranks of a ring together is what the collective has to move."""
    factors = {name: CommunicatorGroup(name, 7, ranks, ranks).factor for name in range(1, 8)}
    assert factors[layout.ALL_REDUCE] * ranks * size == pytest.approx(2 * (ranks - 1) * size)
    assert factors[layout.ALL_REDUCE] == pytest.approx(
        (factors[layout.ALL_GATHER] + factors[layout.REDUCE_SCATTER]) / ranks
    ), "an all-reduce is a scattered reduction and a gather of its parts"
    assert all(factor == 0 for factor in factors.values()) == (ranks == 1), "alone, nothing is sent"


def verbs_job(sent: int) -> tuple[Network, Process]:
    net = Network()
    a, b = net.process("gpu01", 1), net.process("gpu02", 2)
    ends = [(layout.INFINIBAND, 0, qp, np.void(gid * 16), 0, np.void(bytes(18))) for qp, gid in ((1, b"a"), (2, b"b"))]
    for process, (here, there) in ((a, ends), (b, ends[::-1])):
        process.channels.append((layout.QUEUE_PAIR, 1, ticks(0), 0, 0, here, there, np.void(bytes(8))))
    a.record(0.1, 0, layout.WRITE, sent, done=0)
    net.send(net.connect(a, b), 0.2, 10**9)
    return net, a


@pytest.mark.parametrize(("counted", "note"), [
    (1_000_000, None), (1_080_000, None), (1_430_000, "gpu01: 30% of the 1,430,000 bytes"), (0, "stayed on the node"),
])  # fmt: skip
def test_ports_are_held_against_queue_pairs(tmp_path: Path, counted: int, note: str | None) -> None:
    """TCP does not go through them; hosts without a recording are ignored."""
    net, _ = verbs_job(1_000_000)
    recordings = [read(path) for path in net.write(tmp_path)]
    found = list(ports(recordings, {"gpu01": counted, "gpu02": 0, "gpu09": 5}))
    assert len(found) == bool(note)
    assert not note or note in found[0]


def test_recordings_without_collectives_are_seen_as_before(tmp_path: Path) -> None:
    net, _ = verbs_job(5)
    seen = view([read(path) for path in net.write(tmp_path)])
    assert (seen.groups, seen.notes) == ({}, ())
    assert sum(stream.bytes for stream in seen.traffic.streams) == 10**9 + 5
