"""Jobs of the service: what the journal has is what a restarted manager goes on with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.errors import UsageError
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules, NoAggregatorLeft
from tiresias.services.parameter_service.assignment.loss_feedback import LossVerdict
from tiresias.services.parameter_service.manager.assignment_journal import REST, joined
from tiresias.services.parameter_service.manager.fleet_state import FleetState
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.manager.vacated_aggregator import vacate

KEY = bytes(range(32))
SIZES = {"fc6": 1000, "fc7": 400, "conv": 100, "bias": 5}


class Manager:
    """The jobs and their journal, which can be opened again."""

    def __init__(self, folder: Path, budget: int = 8) -> None:
        self.folder, self.budget, self.epoch = folder, budget, 0
        self.open()

    def open(self) -> None:
        self.epoch += 1
        self.journal = ManagerJournal(self.folder, self.epoch)
        self.clusters = AggregatorClusters(AssignmentRules(), self.budget)
        self.jobs = RegisteredJobs(self.journal, self.clusters)

    def restart(self) -> None:
        self.journal.close()
        self.open()

    def assigned(self, job: str, servers: int = 2, iteration_s: float = 1.0) -> None:
        self.jobs.register(job, 1000, KEY, servers, workers=2)
        blocks = self.jobs.init(job, SIZES)
        self.jobs.profiled(job, iteration_s, dict.fromkeys(blocks, 0.2 * servers * iteration_s / len(blocks)))
        self.migrate()

    def migrate(self) -> None:
        for (job, block), (_, to) in self.jobs.moves().items():
            self.jobs.migrated(job, [block], to)

    @property
    def allocated(self) -> list[int]:
        return [number for number, each in self.journal.members().items() if each.state is not FleetState.CANCELLING]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(tmp_path)
    yield found
    found.journal.close()


def test_a_job_from_registration_to_end(manager: Manager) -> None:
    manager.jobs.register("a", 1000, KEY, servers=2, workers=2)
    assert len(manager.allocated) == 2
    blocks = manager.jobs.init("a", SIZES)
    assert set(blocks.values()) == set(manager.allocated)
    manager.jobs.profiled("a", 1.0, dict.fromkeys(blocks, 0.05))
    assert set(manager.jobs.target("a").values()) <= set(manager.allocated)
    manager.migrate()
    assert manager.jobs.moves() == {}
    manager.assigned("b")
    assert len(manager.allocated) == 2, "b shares the aggregators of a; those of its profile are released"
    for job in ("a", "b"):
        manager.jobs.end(job)
    manager.jobs.scale(10_000.0)
    assert manager.allocated == []


def test_an_aggregator_with_a_master_copy_is_not_released(manager: Manager) -> None:
    manager.assigned("a")
    manager.jobs.register("b", 1000, KEY, servers=2, workers=2)
    blocks = manager.jobs.init("b", SIZES)
    manager.jobs.profiled("b", 1.0, dict.fromkeys(blocks, 0.01))
    assert manager.jobs.moves()
    assert set(blocks.values()) <= set(manager.allocated)
    manager.migrate()
    assert not set(blocks.values()) & set(manager.allocated)


def test_a_loss_is_reverted_and_a_restart_changes_nothing(manager: Manager) -> None:
    manager.assigned("a")
    manager.assigned("b")
    before = manager.allocated
    verdicts = [manager.jobs.observe("b", 1.3) for _ in range(100)]
    assert verdicts[-1] is LossVerdict.REVERT
    assert len(manager.allocated) == len(before) + 1
    manager.migrate()
    placed = {job: manager.jobs.target(job) for job in ("a", "b")}
    manager.restart()
    assert {job: manager.jobs.target(job) for job in ("a", "b")} == placed
    assert (manager.jobs.moves(), manager.jobs.key_of("a")) == ({}, KEY)
    manager.jobs.scale(10_000.0)
    assert len(manager.allocated) == len(before) + 1, "a reverted job keeps what it has"


def test_what_is_refused(manager: Manager) -> None:
    manager.jobs.register("a", 1000, KEY, servers=2, workers=1)
    manager.jobs.register("a", 1000, KEY, servers=2, workers=1)
    others = [
        ("a", 1001, KEY, 2),
        ("a", 1000, KEY[::-1], 2),
        ("b/", 1000, KEY, 1),
        ("b", 1000, b"", 1),
        ("b", 1000, KEY, 0),
    ]
    for job, uid, key, servers in others:
        with pytest.raises(UsageError):
            manager.jobs.register(job, uid, key, servers, 1)
    with pytest.raises(NoAggregatorLeft):
        manager.jobs.register("b", 1000, KEY, servers=7, workers=1)
    for sizes in ({}, {"t": 0}):
        with pytest.raises(UsageError):
            manager.jobs.init("a", sizes)
    blocks = manager.jobs.init("a", SIZES)
    assert manager.jobs.init("a", SIZES) == blocks
    with pytest.raises(UsageError, match="fc6 has 1001 bytes, and had 1000"):
        manager.jobs.init("a", {"fc6": 1001})
    with pytest.raises(UsageError, match="other blocks"):
        manager.jobs.profiled("a", 1.0, {"fc6": 1.0})
    with pytest.raises(UsageError, match="not registered"):
        manager.jobs.init("z", SIZES)
    assert manager.jobs.key_of("z") is None


@pytest.mark.parametrize("assigned", [False, True])
def test_a_job_adds_tensors_later(manager: Manager, assigned: bool) -> None:
    """The first ones stay where they are; a restarted manager has all of them."""
    if assigned:
        manager.assigned("other")
        manager.assigned("a")
    else:
        manager.jobs.register("a", 1000, KEY, servers=2, workers=2)
        manager.jobs.init("a", SIZES)
    before = manager.jobs.target("a")
    added = {"bucket-1": 800, "bucket-2": 700}
    placed = manager.jobs.init("a", added)
    assert {block: placed[block] for block in before} == before
    assert placed.keys() - before.keys() == added.keys()
    assert set(placed.values()) == set(before.values()), "no further aggregator"
    if not assigned:
        assert placed["bucket-1"] != placed["bucket-2"]
    assert manager.jobs.moves() == {}
    assert manager.jobs.init("a", {**SIZES, **added}) == placed
    manager.restart()
    assert manager.jobs.target("a") == placed
    assert manager.jobs.init("a", {"fc6": SIZES["fc6"]}) == placed, "a part of them is named"
    with pytest.raises(UsageError, match="bucket-2 has 701 bytes, and had 700"):
        manager.jobs.init("a", {"bucket-2": 701})
    for sizes, problem in (({"fc6#1": 5}, "name of a block"), ({"x": 0}, "give 1 or more")):
        with pytest.raises(UsageError, match=problem):
            manager.jobs.init("a", sizes)
    if not assigned:
        manager.jobs.profiled("a", 1.0, dict.fromkeys(placed, 0.01))
    work = manager.clusters.jobs["a"].tensors
    assert work.keys() == placed.keys()
    assert min(work.values()) > 0
    manager.migrate()
    manager.jobs.end("a")
    if assigned:
        manager.jobs.end("other")
    manager.jobs.scale(10_000.0)
    assert manager.allocated == []


def written(manager: Manager) -> Any:
    """The assignment that the journal has; an empty one before the first write."""
    pieces = manager.journal.packing()
    return joined(pieces) if pieces else AggregatorClusters(AssignmentRules(), 1).stored()


def test_a_migration_writes_its_job_alone_and_an_arrival_the_aggregators_that_it_changes(manager: Manager) -> None:
    for job in ("a", "b", "c"):
        manager.assigned(job, servers=1, iteration_s=0.2)
    manager.jobs.register("d", 1000, KEY, servers=1, workers=2)
    blocks = manager.jobs.init("d", SIZES)
    statements: list[str] = []
    manager.journal._db.set_trace_callback(statements.append)
    manager.jobs.profiled("d", 1.0, dict.fromkeys(blocks, 0.1))
    moves = manager.jobs.moves_of("d")
    assert moves
    changed = {str(to) for _, to in moves.values()} | {REST}
    assert {text.split("'")[1] for text in statements if "into packing_piece" in text} == changed
    statements.clear()
    manager.migrate()
    rows = [text for text in statements if text.startswith(("insert", "delete"))]
    assert rows
    assert all("into client" in text or "into aggregator" in text for text in rows)
    assert written(manager) == manager.clusters.stored()


def state_of(manager: Manager) -> tuple[Any, ...]:
    targets = {job: manager.jobs.target(job) for job in manager.journal.clients()}
    return manager.clusters.stored(), manager.jobs.moves(), targets


def event_of(manager: Manager, event: str, data: st.DataObject) -> None:
    jobs = sorted(manager.journal.clients())
    if event == "arrive":
        name = f"j{data.draw(st.integers(0, 5))}"
        manager.jobs.register(name, 1000, KEY, data.draw(st.integers(1, 2)), 1)
        blocks = manager.jobs.init(name, SIZES)
        if data.draw(st.booleans()):
            manager.jobs.profiled(name, data.draw(st.sampled_from([1.0, 2.0, 1.3])), dict.fromkeys(blocks, 0.02))
    elif event == "end" and jobs:
        manager.jobs.end(data.draw(st.sampled_from(jobs)))
    elif event == "revert" and jobs:
        job = data.draw(st.sampled_from(jobs))
        for _ in range(100):
            manager.jobs.observe(job, 9.0)
    elif event == "migrate":
        manager.migrate()
    elif event == "vacate" and manager.allocated:
        number = data.draw(st.sampled_from(manager.allocated))
        usable = [each for each in manager.allocated if each != number and data.draw(st.booleans())]
        left = vacate(manager.jobs, manager.clusters, number, usable)
        targets = {job: manager.jobs.target(job).values() for job in jobs}
        assert sorted(job for job, numbers in targets.items() if number in numbers) == sorted(set(left))
        assert not left or not set(usable) & set(manager.clusters.loads), "there was a place"
    elif event == "scale":
        manager.jobs.scale(data.draw(st.floats(0, 1e6)))


EVENTS = ["arrive", "arrive", "end", "revert", "migrate", "scale", "restart", "vacate", "vacate"]


@given(data=st.data())
def test_a_restart_at_any_moment_changes_nothing(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    manager = Manager(tmp_path_factory.mktemp("manager"), budget=6)
    for event in data.draw(st.lists(st.sampled_from(EVENTS), max_size=12)):
        with contextlib.suppress(NoAggregatorLeft):
            event_of(manager, event, data)
        before = state_of(manager)
        if event == "restart":
            manager.restart()
            assert before == state_of(manager)
        needed = {number for each in before[2].values() for number in each.values()} | {
            at for at, _ in before[1].values()
        }
        assert needed <= set(manager.allocated)
        assert manager.clusters.allocated <= manager.budget
        assert written(manager) == before[0]
    manager.journal.close()
