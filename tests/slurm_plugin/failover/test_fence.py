"""Before and after each operation on Slurm a controller checks that it still leads, and reports one that came too late."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiresias.durable.leadership import Leadership, Superseded
from tiresias.protocol.control import JobReport
from tiresias.slurm_plugin.act import Actor
from tiresias.slurm_plugin.backends.interface import Backend, SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import PreemptionConfig
from tiresias.slurm_plugin.failover.fence import FencedBackend
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger

SECONDS = 600.0
OPERATIONS = sorted(  # what changes a job: all that name one, but for reads of its record
    name
    for name, method in inspect.getmembers(Backend, inspect.isfunction)
    if "job_id" in inspect.signature(method).parameters and name not in ("job", "stated_gpus", "batch_script")
)
VALUES = {"job_id": "7", "nodes": ("gpu01",), "min_nodes": 1, "max_nodes": 0, "required": (), "signal": "USR2"}
NOTED_AS = {"lift": "release", "begin_now": "begin", "pin": "start"}


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
        """The standby leads, and the lease folder shows an older state (a file system with delays)."""
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


@pytest.fixture
def follow(pair: Pair, tmp_path: Path) -> Iterator[Callable[[SlurmJob], tuple[Ledger, Actor]]]:
    """The standby's ledger and actor once it leads; they have seen the job."""
    journals: list[Journal] = []

    def begin(job: SlurmJob) -> tuple[Ledger, Actor]:
        journals.append(Journal(tmp_path, pair.standby.epoch))
        ledger = Ledger(journals[0], Scope(frozenset({"gpu"})))
        ledger.apply(SlurmSnapshot(1001.0, (job,), ()))
        slurm: Any = Recorder()
        return ledger, Actor(slurm, journals[0], ledger, PreemptionConfig(), lambda _: JobReport())

    yield begin
    for journal in journals:
        journal.close()


@pytest.mark.parametrize("operation", ["hold", "pin"])
def test_a_late_operation_is_the_new_leaders_to_undo(
    pair: Pair, pending: Callable[..., SlurmJob], follow: Callable[[SlurmJob], tuple[Ledger, Actor]], operation: str
) -> None:
    """Without the note a hold would look like an administrator's, a pin like the owner's request: the job would wait for ever."""
    pair.slurm.during = pair.take_the_lease
    with pytest.raises(Superseded):
        pair.carry_out(operation)
    held = pending(id="7")
    ledger, actor = follow(held)
    assert not ledger.free(held)
    actor.take_notes(pair.standby.notes())
    row = ledger.jobs["7"]
    assert (row.held, row.pinned) == (operation == "hold", operation == "pin")
    assert ledger.free(held) == (operation == "hold")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_was_journaled_before_an_operation_is_on_the_disk_when_it_is_carried_out(
    pair: Pair, operation: str
) -> None:
    viewer = Journal(pair.state, pair.leader.epoch)
    found: list[str | None] = []
    pair.slurm.during = lambda: found.append(viewer.noted("before"))
    with pair.journal.collected():
        pair.journal.note("before", "written")
        assert viewer.noted("before") is None
        pair.carry_out(operation)
    assert found == ["written"]
    viewer.close()
