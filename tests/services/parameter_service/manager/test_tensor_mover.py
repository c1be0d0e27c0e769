"""The manager with real aggregators: jobs are handed over, tensors migrate, and a repeated step changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.services.parameter_service.conftest import Deployment, until
from tiresias.errors import UsageError
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.assignment_rules import AssignmentRules
from tiresias.services.parameter_service.manager.aggregator_calls import AggregatorCalls
from tiresias.services.parameter_service.manager.fleet_state import FleetState
from tiresias.services.parameter_service.manager.manager_journal import ManagerJournal
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.manager.tensor_mover import TensorMover
from tiresias.services.parameter_service.messages.agent_messages import InitTensor, Push
from tiresias.services.wire.channel import Channel
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.session_messages import Accepted

KEY = bytes(range(32))
SIZES = {"fc": 1000, "conv": 1000}


class Moved:
    """The jobs of a manager on running aggregators, opened anew by `restart`."""

    def __init__(self, deployment: Deployment, folder: Path, count: int) -> None:
        self._deployment, self._folder, self._epoch = deployment, folder, 0
        self.aggregators = [deployment.aggregator() for _ in range(count)]
        self.open()

    def open(self) -> None:
        self._epoch += 1
        self.journal = ManagerJournal(self._folder, self._epoch)
        self.jobs = RegisteredJobs(self.journal, AggregatorClusters(AssignmentRules(), len(self.aggregators)))
        addresses = {number: each.address for number, each in enumerate(self.aggregators)}
        self.mover = TensorMover(self.jobs, AggregatorCalls(self._deployment.key), lambda: addresses, 1 << 20)

    def restart(self) -> None:
        self.journal.close()
        self.open()

    def start(self, job: str) -> None:
        """Register a job, and declare and update its tensors as its agent does."""
        self.jobs.register(job, 1000, KEY, servers=2, workers=1)
        placed = self.jobs.init(job, SIZES)
        self.mover.step()
        for name, number in placed.items():
            channel = Channel.connect(self.mover.address_of(job, number), agent_identity(job, 0, 0), KEY, 20)
            content = np.ones(SIZES[name], np.float32).tobytes()
            assert channel.request(
                InitTensor(name, (SIZES[name],), "float32", "sgd", {"lr": 0.1}), content
            ) == Accepted(name)
            channel.send(Push(name, 1, 0), content)
            channel.close()

    def settled(self) -> bool:
        """One step of the manager, and a push of each tensor to a new master."""
        self.mover.step()
        for (job, name), (_, to) in self.jobs.moves().items():
            copy = self._deployment.tensors(self.aggregators[to], job).get(name)
            if copy and not copy["updates"]:
                channel = Channel.connect(self.aggregators[to].address, agent_identity(job, 0, 0), KEY, 20)
                channel.send(Push(name, copy["epoch"], copy["version"]), bytes(4 * SIZES[name]))
                channel.close()
        return not self.jobs.moves()


def test_tensors_migrate_to_the_assignment_and_a_restart_continues(deployment: Deployment, tmp_path: Path) -> None:
    moved = Moved(deployment, tmp_path, 4)
    moved.start("a")
    moved.jobs.profiled("a", 1.0, dict.fromkeys(SIZES, 0.1))
    assert moved.jobs.moves() == {}, "the aggregators of its profile are its own"
    moved.start("b")
    moved.mover.step()
    moved.jobs.profiled("b", 1.0, dict.fromkeys(SIZES, 0.1))
    moves = moved.jobs.moves()
    assert {key[1] for key in moves} == set(SIZES)
    moved.mover.step()
    moved.restart()
    assert moved.jobs.moves() == moves
    until(moved.settled, "the tensors of b migrate")
    for name, number in moved.jobs.target("b").items():
        assert name in deployment.tensors(moved.aggregators[number], "b")
    states = {number: each.state for number, each in moved.journal.members().items()}
    assert {number for number, state in states.items() if state is FleetState.CANCELLING} == {2, 3}
    moved.jobs.end("a")
    moved.restart()
    moved.mover.step()
    assert [sorted(deployment.statistics(each)["jobs"]) for each in moved.aggregators[:2]] == [["b"], ["b"]]
    moved.journal.close()


def test_a_job_that_registers_anew_finds_nothing_of_the_one_before(deployment: Deployment, tmp_path: Path) -> None:
    """Between two rounds of the manager: it never sees that the first one has gone."""
    moved = Moved(deployment, tmp_path, 2)
    moved.start("a")
    moved.jobs.end("a")
    moved.jobs.register("a", 1000, KEY[::-1], servers=1, workers=3)
    assert moved.jobs.stale("a") == {0, 1}
    moved.restart()
    moved.mover.step()
    assert [deployment.statistics(each)["jobs"] for each in moved.aggregators] == [{}, {}]
    assert moved.jobs.stale("a") == set()
    assert (moved.jobs.workers("a"), moved.jobs.speed("a"), moved.jobs.moves()) == (3, (None, None), {})
    moved.journal.close()


def test_the_work_of_a_tensor_is_measured_by_its_aggregator(deployment: Deployment, tmp_path: Path) -> None:
    moved = Moved(deployment, tmp_path, 2)
    moved.jobs.register("a", 1000, KEY, servers=2, workers=1)
    moved.jobs.init("a", SIZES)
    with pytest.raises(UsageError, match="no update"):
        moved.mover.measured_work("a")
    moved.start("a")

    def measured() -> dict[str, float]:
        moved.mover.step()
        try:
            return moved.mover.measured_work("a")
        except UsageError:
            return {}

    found = until(measured, "the first updates")
    assert set(found) == set(SIZES)
    assert all(0 <= work_s < 1 for work_s in found.values())
    moved.journal.close()


def test_an_aggregator_that_does_not_answer_is_left_for_the_next_step(deployment: Deployment, tmp_path: Path) -> None:
    moved = Moved(deployment, tmp_path, 2)
    moved.aggregators[1].kill()
    moved.jobs.register("a", 1000, KEY, servers=2, workers=1)
    moved.jobs.init("a", SIZES)
    moved.mover.step()
    assert [bool(moved.mover.address_of("a", number)) for number in (0, 1)] == [True, False]
    moved.aggregators[1].start()
    moved.mover.step()
    assert moved.mover.address_of("a", 1)
    moved.journal.close()
