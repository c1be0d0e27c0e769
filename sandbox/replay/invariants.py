"""What must hold after a replay, counted: nothing lost, nothing twice, and the books agree with Slurm's.

lost              jobs that never finished
run_twice         jobs of which two runs were there at once
steps_redone      iterations that were done, lost and done again (beyond the last checkpoint of a run that was killed)
killed_runs       runs that ended without a word
curves_differ     jobs whose losses are not those of an uninterrupted training
slurm_runs        runs in Slurm's own completion log; ours must be as many
runs
ledger_error      seconds: the largest difference between a run's length in the controller's journal and in Slurm's log
ledger_missing    runs in Slurm's log that the journal does not have
starts            that the controller made and saw
other_nodes       of them, on other nodes than planned; the journal says on which
other_shares      of them, on the planned nodes, with the GPUs divided otherwise
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from tiresias.sandbox.replay.results import JobResult, SlurmRun
from tiresias.slurm_plugin.state.journal import Decision, History, RunRow


def count(results: Sequence[JobResult], slurm: Mapping[str, Sequence[SlurmRun]]) -> dict[str, float]:
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
    """The journal's runs against Slurm's, in order; GPU-seconds follow, as a job's GPUs never change."""
    errors, missing = [0.0], 0
    for result in results:
        ours, theirs = _journaled(history, result.id), slurm.get(result.id, ())
        missing += max(0, len(theirs) - len(ours))
        errors += [abs((one.end - one.start) - (two.end - two.start)) for one, two in zip(ours, theirs, strict=False)]
    return {"ledger_error": max(errors), "ledger_missing": missing}


def compare_plan(decisions: Iterable[Decision]) -> dict[str, float]:
    """Where Slurm put what was started, against where it was to be."""
    running = [decision.why for decision in decisions if decision.action == "running"]
    pairs = [tuple(map(_nodes, why.split(", not on "))) for why in running if why.endswith(" as planned")]
    return {
        "starts": len(running),
        "other_nodes": sum(got != wanted for got, wanted in pairs),
        "other_shares": sum(got == wanted for got, wanted in pairs),
    }


def _nodes(words: str) -> set[str]:
    """Of `on gpu01:4, gpu02:1`."""
    return set(re.findall(r"([\w.-]+):\d", words))


def _journaled(history: History, job_id: str) -> list[RunRow]:
    job = history.job(job_id)
    return history.runs(job.key) if job else []
