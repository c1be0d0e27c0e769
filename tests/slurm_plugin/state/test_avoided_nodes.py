"""Nodes that a job avoids: of slow ranks and of failed starts, each for its own time, also after a restart of the controller."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.state import avoided_nodes
from tiresias.slurm_plugin.state.avoided_nodes import SLOW_NODES_S
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.ledger import Ledger

Make = Callable[..., SlurmJob]
GPUS = {"n1": 4, "n2": 4, "n3": 4, "n4": 4}
names = st.frozensets(st.sampled_from([*GPUS, "removed"]))


@pytest.fixture
def row() -> JobRow:
    """A job that was slow on n1 at 1000 s, and that Slurm did not start on n2."""
    row = JobRow("1@1000", "1", 1001, 1000.0)
    avoided_nodes.note_slow(row, frozenset({"n1"}), 1000.0)
    avoided_nodes.note_failed_start(row, ["n2"], 1200.0)
    return row


def test_each_group_is_avoided_for_its_own_time(row: JobRow) -> None:
    assert avoided_nodes.avoided(row, 8, 1100.0, GPUS) == {"n1", "n2"}
    assert avoided_nodes.avoided(row, 8, 1200.0, GPUS) == {"n1"}
    assert avoided_nodes.avoided(row, 8, 1000.0 + SLOW_NODES_S, GPUS) == frozenset()


def test_where_the_other_nodes_do_not_suffice_those_of_the_failed_start_come_first(row: JobRow) -> None:
    assert avoided_nodes.avoided(row, 12, 1100.0, GPUS) == {"n2"}
    assert avoided_nodes.avoided(row, 12, 1200.0, GPUS) == {"n1"}
    assert avoided_nodes.avoided(row, 13, 1100.0, GPUS) == frozenset()


def test_another_slow_node_is_added_and_another_failed_start_replaces_the_last(row: JobRow) -> None:
    avoided_nodes.note_slow(row, frozenset({"n3"}), 2000.0)
    avoided_nodes.note_failed_start(row, ["n4"], 2100.0)
    assert avoided_nodes.avoided(row, 4, 2050.0, GPUS) == {"n1", "n3", "n4"}
    avoided_nodes.note_slow(row, frozenset({"n2"}), 2000.0 + SLOW_NODES_S)
    assert avoided_nodes.avoided(row, 4, 2000.0 + SLOW_NODES_S, GPUS) == {"n2"}


@given(names, names, st.integers(0, 20))
def test_a_job_never_lacks_gpus_because_of_what_it_avoids(
    slow: frozenset[str], failed: frozenset[str], needed: int
) -> None:
    row = JobRow("1@1000", "1", 1001, 1000.0)
    avoided_nodes.note_slow(row, slow, 1000.0)
    avoided_nodes.note_failed_start(row, failed, 1200.0)
    found = avoided_nodes.avoided(row, needed, 1100.0, GPUS)
    left = sum(gpus for name, gpus in GPUS.items() if name not in found)
    assert left >= needed or not found
    assert found in (slow | failed, slow, failed, frozenset())


def test_the_next_controller_avoids_them_until_the_same_time(ledger: Ledger, journal: Journal, pending: Make) -> None:
    row = ledger.observe(pending())
    assert row
    avoided_nodes.note_slow(row, frozenset({"gpu02", "gpu01"}), 1000.0)
    avoided_nodes.note_failed_start(row, ["gpu03"], 1200.5)
    ledger.save(row)
    found = Ledger(journal, Scope(frozenset({"gpu"}))).jobs["1"]
    assert (found.slow_nodes, found.slow_until) == ("gpu01,gpu02", 1000.0 + SLOW_NODES_S)
    assert (found.failed_nodes, found.failed_until) == ("gpu03", 1200.5)


def test_a_clock_that_was_set_back_makes_no_time_longer(ledger: Ledger, journal: Journal, pending: Make) -> None:
    ledger.apply(SlurmSnapshot(5000.0, (pending(),), ()))
    avoided_nodes.note_slow(ledger.jobs["1"], frozenset({"gpu02"}), 5000.0)
    avoided_nodes.note_failed_start(ledger.jobs["1"], ["gpu03"], 5200.0)
    ledger.apply(SlurmSnapshot(2000.0, (pending(),), ()))
    [found] = journal.live_jobs()
    assert (found.slow_until, found.failed_until) == (2000.0 + SLOW_NODES_S, 2000.0)
