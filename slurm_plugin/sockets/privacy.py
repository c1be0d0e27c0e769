"""What users see of other users on the control socket: no more than Slurm itself shows (PrivateData in slurm.conf).

jobs, usage    other users' jobs do not exist for a user: not in the list, the decisions and the alarms, and not for `explain`. On
               the nodes their GPUs count as used by unmanaged jobs. Sums remain, and in a reason the id of a job that one's own job
               waits for. Totals are by partition, without accounts.
nodes          no node is listed, and no cell of a virtual cluster names its hardware.

root, SlurmUser, the controller's own user, Operators and Administrators see everything. (Slurm shows coordinators the jobs
of their accounts; here they are users.) Pure, O(jobs + nodes) for each user.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tiresias.slurm_plugin.state.totals import by_partition

HIDES_JOBS = frozenset({"jobs", "usage"})


@dataclass(frozen=True, slots=True)
class Privacy:
    """Slurm's setting, and the users to which it does not apply.

    Attributes:
        private: the words of PrivateData
        overseers: uids of users who see everything
    """

    private: frozenset[str] = frozenset()
    overseers: frozenset[int] = frozenset()

    def hides_jobs_from(self, uid: int) -> bool:
        """Return whether other users' jobs are hidden from the user."""
        return bool(self.private & HIDES_JOBS) and uid not in self.overseers

    def hides_nodes_from(self, uid: int) -> bool:
        """Return whether nodes are hidden from the user."""
        return "nodes" in self.private and uid not in self.overseers

    def hides_from(self, uid: int) -> bool:
        """Return whether anything is hidden from the user."""
        return self.hides_jobs_from(uid) or self.hides_nodes_from(uid)

    def view(self, status: Mapping[str, Any], uid: int, own: Collection[str]) -> dict[str, Any]:
        """Return the published dictionary as the user may see it; `own`: the ids of the user's jobs."""
        seen = dict(status)
        if self.hides_jobs_from(uid):
            seen["jobs"] = [job for job in status["jobs"] if job["id"] in own]
            seen["blocked"] = [job for job in status.get("blocked", ()) if job["id"] in own]
            seen["alarms"] = [one for one in status.get("alarms", ()) if not one.startswith("job ")]
            seen["decisions"] = [one for one in status["decisions"] if one["job"] in own]
            seen["nodes"] = [_without_others(node, own) for node in status["nodes"]]
            seen["totals"] = by_partition(status.get("totals", ()))
        if self.hides_nodes_from(uid):
            seen["nodes"] = []
        return seen

    def cells(self, answer: Mapping[str, Any], uid: int, own: Collection[str]) -> dict[str, Any]:
        """Return the cells of virtual clusters as the user may see them; `own`: the ids of the user's jobs."""
        shown = None if not self.hides_jobs_from(uid) else own
        bound = not self.hides_nodes_from(uid)
        clusters = [
            {**each, "cells": [_cell(cell, shown, bound) for cell in each["cells"]]}
            for each in answer["virtual_clusters"]
        ]
        hardware = [_cell(cell, shown, True) for cell in answer["hardware"]] if bound else []
        return {**answer, "virtual_clusters": clusters, "hardware": hardware}


OPEN = Privacy()  # hides nothing


def _cell(cell: Mapping[str, Any], shown: Collection[str] | None, with_hardware: bool) -> dict[str, Any]:
    """Return a cell with some of its jobs; None: all. `with_hardware`: whether the nodes to which it is bound are shown."""
    found = {key: value for key, value in cell.items() if with_hardware or key not in ("bound", "nodes", "pinned")}
    if shown is not None and "jobs" in found:
        found["jobs"] = [job for job in found["jobs"] if job[0] in shown]
    if "parts" in found:
        found["parts"] = [_cell(part, shown, with_hardware) for part in found["parts"]]
    return found


def _without_others(node: Mapping[str, Any], own: Collection[str]) -> dict[str, Any]:
    allocations = [each for each in node["allocations"] if each[0] in own]
    others = sum(gpus for job, gpus in node["allocations"] if job not in own)
    return {**node, "allocations": allocations, "other_gpus": node["other_gpus"] + others}
