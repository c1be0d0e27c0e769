"""Before and after each operation on Slurm a controller checks that it still leads, and reports one that came too late."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tiresias.slurm_plugin.act import Actor
from tiresias.slurm_plugin.backends.protocol import Backend, SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Preemption
from tiresias.slurm_plugin.lead.fence import FencedBackend
from tiresias.slurm_plugin.lead.leadership import Leadership, Superseded
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

SECONDS = 600.0
OPERATIONS = sorted(  # what changes a job: all that name one, but for the read of its record
    name
    for name, method in inspect.getmembers(Backend, inspect.isfunction)
    if "job_id" in inspect.signature(method).parameters and name != "job"
)
VALUES = {"job_id": "7", "nodes": ("gpu01",), "min_nodes": 1, "max_nodes": 0, "required": (), "signal": "USR2"}
NOTED_AS = {"lift": "release", "begin_now": "begin"}


class Recorder:
    """A back end that records its operations. during: what happens while one is carried out."""

    name, why = "recorder", ""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.during: Callable[[], object] = lambda: None

    def __getattr__(self, operation: str) -> Callable[..., int]:
        def carry_out(*_: object) -> int:
            self.done.append(operation)
            self.during()
            return 0

        return carry_out


class Pair:
    """A leader with its journal and its fenced back end, and a standby with the same state folder."""

    def __init__(self, state: Path) -> None:
        self.state, self.slurm = state, Recorder()
        self.leader, self.standby = (Leadership(state / "leader", SECONDS) for _ in range(2))
        assert self.leader.take()
        self.journal = Journal(state, self.leader.epoch)
        self.fenced: Any = FencedBackend(self.slurm, self.leader, self.journal)  # type: ignore[arg-type]

    def carry_out(self, operation: str) -> None:
        method = getattr(self.fenced, operation)
        method(*[VALUES.get(name, 0) for name in inspect.signature(method).parameters])

    def take_the_lease(self) -> None:
        """The standby leads, and has not opened the journal yet."""
        assert self.standby.seize()

    def take_the_journal(self) -> None:
        """The standby leads, and the lease folder shows an older state (a file system that lags behind)."""
        lease = self.state / "kept"
        shutil.copytree(self.state / "leader", lease)
        self.take_the_lease()
        Journal(self.state, self.standby.epoch).close()
        shutil.rmtree(self.state / "leader")
        lease.rename(self.state / "leader")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    yield found
    found.journal.close()
    for one in (found.leader, found.standby):
        one.step_down()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_leader_reaches_slurm_and_leaves_no_note(pair: Pair, operation: str) -> None:
    pair.carry_out(operation)
    assert pair.slurm.done == [operation]
    assert pair.leader.notes() == []


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("witness", ["take_the_lease", "take_the_journal"])
def test_a_superseded_controller_does_not_reach_slurm(pair: Pair, operation: str, witness: str) -> None:
    """Each of lease and journal alone is enough."""
    getattr(pair, witness)()
    with pytest.raises(Superseded):
        pair.carry_out(operation)
    assert pair.slurm.done == []
    assert pair.standby.notes() == []


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("refused", [False, True])
def test_an_operation_that_came_too_late_is_reported_to_the_new_leader(
    pair: Pair, operation: str, refused: bool
) -> None:
    """The controller was stopped between the check and the operation; whether Slurm took it or refused it is the same."""

    def meanwhile() -> None:
        pair.take_the_lease()
        if refused:
            raise TimeoutError

    pair.slurm.during = meanwhile
    with pytest.raises(Superseded):
        pair.carry_out(operation)
    assert pair.standby.notes() == [f"{NOTED_AS.get(operation, operation)}-7"]


def test_a_late_hold_is_lifted_by_the_new_leader(pair: Pair, pending: Callable[..., SlurmJob], tmp_path: Path) -> None:
    """Without the note the hold would look like an administrator's, and the job would wait for ever."""
    pair.slurm.during = pair.take_the_lease
    with pytest.raises(Superseded):
        pair.carry_out("hold")
    journal = Journal(tmp_path, pair.standby.epoch)
    ledger = Ledger(journal, Scope(frozenset({"gpu"})))
    slurm = Recorder()
    allowance: Any = SimpleNamespace(affords_hold=lambda _: True, affords_start=lambda *_: True, postponed=0)
    actor = Actor(slurm, journal, ledger, Preemption(), lambda job: None, allowance)  # type: ignore[arg-type, return-value]
    held = pending(id="7")
    ledger.apply(SlurmSnapshot(1001.0, (held,), ()))
    assert not ledger.free(held)
    actor.hear(pair.standby.notes())
    assert ledger.free(held)
    journal.close()
