"""What a replay with --shares reports beyond one without: users by account, and waits of unmanaged jobs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiresias.sandbox.replay.replay_report import user_slowdowns
from tiresias.sandbox.replay.replay_results import JobResult
from tiresias.sandbox.replay.shared_site import ACCOUNTS, SharedSite, wait_of


def waits(results: Sequence[JobResult], site: SharedSite, time_scale: float) -> dict[str, float]:
    """Return the mean wait for the first start of the unmanaged jobs, by kind, in seconds of the trace."""
    by_kind: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        if (kind := site.kind(result.job.job_id)) and result.runs:
            by_kind[wait_of(kind)].append(result.runs[0].start - result.submit)
    return {key: float(np.mean(found)) * time_scale for key, found in by_kind.items()}


def users(results: Sequence[JobResult], site: SharedSite, time_scale: float) -> dict[str, dict[str, Any]]:
    """Return account, number of jobs and slowdown of each user of the trace; unmanaged jobs are left out."""
    own = [result for result in results if result.finished and not site.kind(result.job.job_id)]
    slowdown = user_slowdowns(own, time_scale)
    account = {result.job.user: ACCOUNTS[site.user(result.job)] for result in own}
    jobs = {name: sum(result.job.user == name for result in own) for name in slowdown}
    return {name: {"account": account[name], "jobs": jobs[name], "slowdown": slowdown[name]} for name in slowdown}
