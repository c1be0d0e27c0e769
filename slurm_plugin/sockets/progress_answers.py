"""Answers to `{"op": "progress"}`: the losses of one job from the journal, and the predictions of the newest cycle."""

from __future__ import annotations

import math
from typing import Any

from tiresias.protocol import convergence
from tiresias.scheduler.estimates.size_estimate import SizeEstimate
from tiresias.slurm_plugin.sockets.history_pages import run_of
from tiresias.slurm_plugin.state.journal_history import History
from tiresias.slurm_plugin.state.journal_rows import JobRow


def progress_of(job: dict[str, Any], row: JobRow, history: History, sizes: SizeEstimate | None) -> dict[str, Any]:
    """Return what a job reported.

    Args:
        job: The job as it is published.
        row: Its row.
        history: The journal.
        sizes: Its predictions by size; None: none.
    """
    stored, runs = history.progress.losses(row.key), history.runs(row.key)
    until, beneficiaries = convergence.of_text(row.converges), history.beneficiaries(row.key)
    return {
        "job": job,
        "runs": [run_of(run, beneficiaries) for run in runs],
        "steps": stored.points.steps.tolist(),
        "losses": stored.points.losses.tolist(),
        "reports_a_point": stored.reports_a_point,
        "until": until and until.stated(),
        "sizes": _sizes(sizes),
        "uncertain": bool(sizes and sizes.uncertain),
    }


def _sizes(found: SizeEstimate | None) -> list[dict[str, Any]]:
    if found is None:
        return []
    left = found.seconds[0].tolist()
    servers = [0] * len(left) if found.servers is None else found.servers.tolist()
    return [
        {"gpus": gpus, "servers": count, "seconds": round(seconds, 3)}
        for gpus, (seconds, count) in enumerate(zip(left, servers, strict=True))
        if math.isfinite(seconds)
    ]
