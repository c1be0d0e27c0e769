"""Islands from node features and GRES indexes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.model import Request
from tiresias.scheduler.place.free_capacity import free
from tiresias.scheduler.place.placer import Placer
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.cluster.islands import Held, contradictions, division, on_islands
from tiresias.slurm_plugin.cluster.part_types import named_parts
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.config.sections import Placement
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.ledger import Ledger

LEVELS = ("nvlink", "socket")
NODE = SlurmNode(
    name="gpu01", state="MIXED", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="", cpus=16,
    cpus_allocated=0, memory=64000, memory_allocated=0, features=("rack1", "socket:2"), partitions=("gpu",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("features", "gpus", "expected"),
    [
        (("rack1", "socket:2"), 8, (1, 2)),
        (("socket:2", "nvlink:4"), 8, (4, 2)),
        (("nvlink:4", "socket:3"), 12, (1, 1)),  # an island of NVLink that lies across sockets
        (("socket:3",), 8, (1, 1)),
        (("socket:2",), 0, (1, 1)),
        (("socket:", "socket:x", "socket:-2", "socket:0", "socket:99", "sockets:2", "socket"), 8, (1, 1)),
        (("socket:x", "socket:2"), 8, (1, 2)),
        ((), 8, (1, 1)),
    ],
)
def test_divisions(features: tuple[str, ...], gpus: int, expected: tuple[int, ...]) -> None:
    assert division(features, gpus, "", LEVELS) == expected


@pytest.mark.parametrize(
    ("features", "gpus", "kind", "expected"),
    [((), 4, "s0,s1", (1, 2)), (("nvlink:4",), 4, "s0,s1", (4, 1)), ((), 5, "a,b", (1, 1)), ((), 4, "a100", (1, 1))],
)
def test_types_are_islands(features: tuple[str, ...], gpus: int, kind: str, expected: tuple[int, ...]) -> None:
    assert division(features, gpus, kind, LEVELS) == expected
    assert division(features, gpus, kind, ()) == ()


@pytest.mark.parametrize(
    ("features", "sockets", "expected"),
    [
        ((), 2, (1, 2)),
        ((), 0, (1, 1)),
        ((), 3, (1, 1)),  # it does not divide the GPUs
        (("socket:4",), 2, (1, 4)),  # the feature holds
        (("nvlink:4",), 2, (4, 2)),
    ],
)
def test_slurm_reports_the_sockets_of_gpus(features: tuple[str, ...], sockets: int, expected: tuple[int, ...]) -> None:
    assert division(features, 8, "", LEVELS, sockets) == expected
    assert division(features, 8, "", ("nvlink",), sockets) == expected[:1]


@given(st.lists(st.text(), max_size=4), st.integers(0, 100), st.text())
def test_whatever_the_features(features: list[str], gpus: int, kind: str) -> None:
    assert all(part >= 1 for part in division(tuple(features), gpus, kind, LEVELS))


def test_reported_and_unreported_indexes() -> None:
    """The second job's GPUs are not reported yet: two of one island are assumed, as Slurm would select them."""
    free, held = on_islands(
        [(2, 2), (2, 2, 2, 2), (2,)],
        [(1, 2), (4, 2), (1, 1)],
        [Held(0, 1, (3,)), Held(0, 2, ()), Held(1, 3, (0, 1, 7)), Held(2, 1, (1,)), Held(1, 0, ())],
    )
    assert held.tolist() == [[0, 1, 0, 0], [2, 0, 0, 0], [2, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert free.tolist() == [[0, 1, 0, 0], [0, 2, 2, 1], [1, 0, 0, 0]]


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 99), max_size=9)), max_size=5))
def test_more_than_there_is(some: list[tuple[int, list[int]]]) -> None:
    """No record of Slurm makes free capacity negative."""
    free, held = on_islands([(2, 2)], [(2,)], [Held(0, gpus, tuple(indexes)) for gpus, indexes in some])
    assert (free >= 0).all()
    assert (held >= 0).all()


def test_a_snapshot_contains_its_islands(ledger: Ledger, running: Callable[..., SlurmJob]) -> None:
    """Of managed jobs and of others."""
    own = running(1000, gpus=1, shares=(NodeShare("gpu01", 1, 1, 100, (2,)),))
    other = running(1000, id="2", gpus=1, partition="other", shares=(NodeShare("gpu01", 1, 1, 100, (0,)),))
    slurm = SlurmSnapshot(1001, (own, other), (NODE, replace(NODE, name="gpu02", features=())))
    found = Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {})
    assert found.nodes.topology.names == ("leaf", "node", "socket", "nvlink", "gpu")
    assert found.nodes.topology.divisions == ((1, 2), (1, 1))
    assert found.nodes.free.islands.tolist() == [[1, 1], [4, 0]]
    assert found.allocations.resources.islands.tolist() == [[0, 1]]


TYPED = replace(NODE, features=(), gpu_type="s0,s1", gpus_by_type=(("s0", 2), ("s1", 2)))


@pytest.mark.parametrize(
    ("types", "gpus", "parts"),
    [
        ((("s0", 2), ("s1", 2)), 4, 2),
        ((("s1", 2), ("s0", 2)), 4, 1),  # in another order than the list
        ((("s0", 1), ("s1", 3)), 4, 1),
        ((("s0", 2), ("a100", 2)), 4, 1),
        ((("s0", 4),), 4, 1),
        ((), 4, 1),
        ((), 0, 1),
    ],
)
def test_parts_that_types_name(types: tuple[tuple[str, int], ...], gpus: int, parts: int) -> None:
    assert named_parts(replace(TYPED, gpus=gpus, gpus_by_type=types), ("s0", "s1", "s2")) == parts


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ((), (1, 2)),
        (("socket:2",), (1, 2)),
        (("nvlink:2",), (2, 1)),
        (("nvlink:4", "socket:2"), (1, 2)),  # no type names an NVLink island
        (("socket:4",), (1, 2)),
    ],
)
def test_the_finest_parts_are_those_that_types_name(
    ledger: Ledger, features: tuple[str, ...], expected: tuple[int, ...]
) -> None:
    slurm = SlurmSnapshot(1001, (), (replace(TYPED, features=features), replace(NODE, name="gpu02")))
    config = Config(placement=Placement(part_types=("s0", "s1")))
    found = Observer(config, ledger, selects_parts=True).observe(slurm, ledger.apply(slurm), {})
    assert found.nodes.topology.divisions == (expected, (1, 2))
    assert found.nodes.topology.selectable_parts.tolist() == [2, 1], "GPUs without such types cannot be selected"
    predicted = Observer(config, ledger).observe(slurm, ledger.apply(slurm), {})
    assert predicted.nodes.topology.selectable is None


def test_a_start_in_progress_holds_the_parts_that_it_selects(ledger: Ledger, pending: Callable[..., SlurmJob]) -> None:
    """Until its pin names a type, and until Slurm reports the indexes."""
    job = pending(gpus=2, priority=100, reason="Resources")
    slurm = SlurmSnapshot(1001, (job,), (TYPED,))
    managed = ledger.apply(slurm)
    nodes, parts = (("gpu01", 2),), ((0, 2),)
    start = Intent("", job.id, 0, IntentKind.START, IntentStep.START, nodes, parts=parts)
    victim = Intent("", "9", 0, IntentKind.PREEMPT, IntentStep.WAIT, nodes, beneficiary=job.id, parts=parts)
    config = Config(placement=Placement(part_types=("s0", "s1")))
    for intents in ({job.id: start}, {"9": victim}):
        found = Observer(config, ledger, selects_parts=True).observe(slurm, managed, intents)
        assert found.allocations.resources.islands.tolist() == [[0, 2]]
        assert found.nodes.free.islands.tolist() == [[2, 0]]


def test_without_features_there_are_no_islands(ledger: Ledger, running: Callable[..., SlurmJob]) -> None:
    slurm = SlurmSnapshot(1001, (running(1000),), (replace(NODE, features=("rack1",)),))
    found = Observer(Config(), ledger).observe(slurm, ledger.apply(slurm), {})
    assert (found.nodes.topology.divisions, found.nodes.topology.names) == ((), ("leaf", "node", "gpu"))
    assert (found.nodes.free.islands.size, found.allocations.resources.islands.size) == (0, 0)


MIG = replace(NODE, gpus=7, gpu_type="a100,1g.10gb", gpus_by_type=(("a100", 1), ("1g.10gb", 6)), features=("nvlink:7",))


@pytest.mark.parametrize("levels", [LEVELS, ()])
def test_types_of_different_numbers_are_counted_apart(
    ledger: Ledger, running: Callable[..., SlurmJob], levels: tuple[str, ...]
) -> None:
    """By the types that Slurm reports, whatever the order of the indexes. A GPU of which a job holds a shard is not free."""
    shares = (NodeShare("gpu01", 2, 1, 100, (0, 3), (("1g.10gb", 2),)),)
    shard = running(1000, id="2", gpus=0, sharing="shard", shares=(NodeShare("gpu01", 0, 1, 100, shared_gpus=(6,)),))
    slurm = SlurmSnapshot(1001, (running(1000, gpus=2, shares=shares), shard), (MIG, replace(NODE, name="gpu02")))
    found = Observer(Config(placement=Placement(islands=levels)), ledger).observe(slurm, ledger.apply(slurm), {})
    topology = found.nodes.topology
    assert (topology.part_sizes(0), topology.uneven) == ((1, 6), {0: (1, 6)})
    assert found.nodes.free["gpus"].tolist() == [4, 4]
    assert found.nodes.free.islands[0].tolist() == [1, 3]
    assert found.allocations.resources.islands.tolist() == [[0, 2]]
    placer = Placer(found)
    space = placer.space(free(found.nodes))
    for kind, most in (("a100", 1), ("1g.10gb", 3)):
        request = placer.kind(Request(gpu_type=kind))
        assert placer.place(request, most, space) == ((0, most),)
        assert placer.place(request, most + 1, space) is None
    assert placer.possible(placer.kind(Request(gpu_type="1g.10gb")), 6)
    assert not placer.possible(placer.kind(Request(gpu_type="a100")), 2)
    assert topology.of_nodes(np.array([1, 0])).part_sizes(1) == (1, 6)


def test_features_that_do_not_divide_a_node_as_its_types_do() -> None:
    assert list(contradictions(MIG, LEVELS)) == [
        "nvlink:7 is ignored: its GPUs are counted by type (gpu:a100:1, gpu:1g.10gb:6)"
    ]
    assert not list(contradictions(replace(TYPED, features=("socket:2",)), LEVELS))
