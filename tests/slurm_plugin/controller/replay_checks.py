"""Checks of a replay during which controllers were killed or competed while the jobs continued."""

from __future__ import annotations

import contextlib

from tiresias.sandbox.replay import invariants
from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.replay_results import slurm_runs
from tiresias.slurm_plugin.state.journal_history import History

CLEAN_UP_S = 10.0  # of a run, at most: the journal ends a run by then if its end was not polled before the next start
ZERO_COUNTS = ("lost", "run_twice", "steps_redone", "killed_runs", "curves_differ", "ledger_missing")


def check(replay: Replay) -> None:
    """Check that nothing is lost or done twice, and that the journal has all runs of its jobs.

    Some jobs start and end while no controller leads. The first job must have been preempted.
    """
    results, slurm = replay.results(), slurm_runs(replay.cluster.log / "jobcomp.log")
    counts = invariants.count(results, slurm)
    with contextlib.closing(History.of(replay.journal)) as history:
        journaled = [one for one in results if history.job(one.id)]
        counts |= invariants.compare_ledger(journaled, slurm, history)
    assert results[0] in journaled
    assert counts["runs"] == counts["slurm_runs"] > len(results), "the long job was never preempted"
    assert counts["ledger_error"] <= CLEAN_UP_S, counts
    for name in ZERO_COUNTS:
        assert counts[name] == 0, (name, counts)
