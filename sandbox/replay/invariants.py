"""Violations of invariants after a replay: lost or duplicate work, and differences between the journal and Slurm.

lost             jobs that never finished
run_twice        jobs with two runs at the same time
steps_redone     iterations that were lost and repeated, beyond the last checkpoint of a killed run
killed_runs      runs that ended without an event
curves_differ    jobs whose losses differ from those of an uninterrupted training
runs             runs that the trainers recorded
slurm_runs       runs in Slurm's own completion log, equal to `runs`
ledger_error     seconds: the largest difference between a run's length in the controller's journal and in Slurm's log
ledger_missing   runs in Slurm's log that the journal lacks
starts           starts that the controller made and observed
other_nodes      of these, starts on other nodes than planned, as the journal records
other_shares     of these, starts on the planned nodes with a different distribution of GPUs: Slurm's own choice among them
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from tiresias.sandbox.replay.replay_results import JobResult, SlurmRun
from tiresias.slurm_plugin.state.journal_history import History
from tiresias.slurm_plugin.state.journal_rows import Decision, RunRow


def count(results: Sequence[JobResult], slurm: Mapping[str, Sequence[SlurmRun]]) -> dict[str, float]:
    """Return the counts from the trainers' events and Slurm's log."""
    runs = [run for result in results for run in result.runs]
    return {
        "lost": sum(not result.finished for result in results),
        "run_twice": sum(result.overlapping for result in results),
        "steps_redone": sum(run.redone for run in runs),
        "killed_runs": sum(math.isnan(run.end) for run in runs),
        "curves_differ": sum(result.finished and not result.curve_is_right for result in results),
        "runs": len(runs),
        "slurm_runs": sum(len(slurm.get(result.id, ())) for result in results),
    }


def compare_ledger(
    results: Sequence[JobResult], slurm: Mapping[str, Sequence[SlurmRun]], history: History
) -> dict[str, float]:
    """Compare the journal's runs with Slurm's, in order; GPU-seconds follow, as a job's GPUs never change."""
    errors, missing = [0.0], 0
    for result in results:
        journaled, logged = _journaled(history, result.id), slurm.get(result.id, ())
        missing += max(0, len(logged) - len(journaled))
        errors += [
            abs((one.end - one.start) - (two.end - two.start)) for one, two in zip(journaled, logged, strict=False)
        ]
    return {"ledger_error": max(errors), "ledger_missing": missing}


def compare_plan(decisions: Iterable[Decision]) -> dict[str, float]:
    """Compare the nodes of started jobs with the planned nodes."""
    running = [decision.why for decision in decisions if decision.action == "running"]
    pairs = [tuple(map(_nodes, why.split(", not on "))) for why in running if why.endswith(" as planned")]
    return {
        "starts": len(running),
        "other_nodes": sum(got != planned for got, planned in pairs),
        "other_shares": sum(got == planned for got, planned in pairs),
    }


def _nodes(words: str) -> set[str]:
    """Return the node names in `on gpu01:4, gpu02:1`."""
    return set(re.findall(r"([\w.-]+):\d", words))


def _journaled(history: History, job_id: str) -> list[RunRow]:
    job = history.job(job_id)
    return history.runs(job.key) if job else []
