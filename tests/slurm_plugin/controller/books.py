"""The books of a replay in which the controllers died, or fought, while the jobs went on."""

from __future__ import annotations

import contextlib

from tiresias.sandbox.replay import invariants
from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.replay_results import slurm_runs
from tiresias.slurm_plugin.state.journal_history import History

CLEANING = 10.0  # seconds that Slurm cleans up at most: a run whose end nobody saw before the next one began ends then
NOTHING = ("lost", "run_twice", "steps_redone", "killed_runs", "curves_differ", "ledger_missing")


def check(replay: Replay) -> None:
    """Nothing is lost or done twice, and the journal has all runs of the jobs that it knows: some start and end by themselves while
    nobody leads. The first job is one that was preempted."""
    results, slurm = replay.results(), slurm_runs(replay.cluster.log / "jobcomp.log")
    counts = invariants.count(results, slurm)
    with contextlib.closing(History.of(replay.journal)) as history:
        met = [one for one in results if history.job(one.id)]
        counts |= invariants.compare_ledger(met, slurm, history)
    assert results[0] in met
    assert counts["runs"] == counts["slurm_runs"] > len(results), "the long job was never preempted"
    assert counts["ledger_error"] <= CLEANING, counts
    for name in NOTHING:
        assert counts[name] == 0, (name, counts)
