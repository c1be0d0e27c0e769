"""What the owners of the jobs of `--mixed` do besides: hold, release, requeue and change jobs, and move them to other accounts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.chaos.mixed_tenant_judges import Move
from tests.chaos.mixed_tenant_workload import MixedJob
from tests.chaos.remedies import SEEN_AFTER
from tests.chaos.scene import Job, Scene, tasks
from tests.chaos.tenant_scene import TenantScene, TenantTroubles
from tests.chaos.tenants import GPUS_PER_PART, NODES

CELLS_AFTER_S = 6.0  # after a move, in which the job may have started


class MixedTenantTroubles(TenantTroubles):
    """The troubles of tenants, and those of owners.

    Attributes:
        moves: Jobs that Slurm has moved to another account.
        counts_of: Numbers of nodes that owners requested by a change, by name of job.
        narrowed: Names of jobs whose nodes owners changed.
        requeued: Names of jobs that their owner requeued.
        cells: What `tiresias cells --json` printed, each with its moment.
    """

    by_themselves: Mapping[str, int] = {
        **TenantTroubles.by_themselves, "hold": 3, "release": 1, "requeue": 2, "change": 4, "move_to_another_account": 8,
        "read_cells": 3,
    }  # fmt: skip
    at_steps: Mapping[str, int] = {
        **TenantTroubles.at_steps, "hold": 1, "requeue": 1, "change": 1, "move_to_another_account": 4,
    }  # fmt: skip

    def __init__(self, scene: Scene, seed: int, report: Callable[[str], None]) -> None:
        super().__init__(scene, seed, report)
        self.moves, self.requeued = list[Move](), set[str]()
        self.counts_of, self.narrowed = dict[str, set[int]](), set[str]()
        self.cells = list[tuple[float, dict[str, Any]]]()

    def requeue(self, job: str) -> str | None:
        done = super().requeue(job)
        if done:
            self.requeued.add(done.split()[0])
        return done

    def change(self, job: str) -> str | None:
        """Nodes only where their number is a part of the request, and not named."""
        found = self._pick(job)
        if not found:
            return None
        number, name, _ = found
        change = self._dice.choice(["TimeLimit=30", "Nice=10", *self._changes_of_nodes(self.scene.jobs[name])])
        done = self._owner(number, "update", change=change)
        if done and done.endswith(change) and "Node" in change:
            self._narrowed.add(name)
            self.narrowed.add(name)
            self._note_counts(name, change)
        return done

    def _changes_of_nodes(self, job: object) -> list[str]:
        if not isinstance(job, MixedJob) or not job.nodes or job.names_hardware or job.exclusive:
            return []
        return [f"NumNodes={job.nodes}-{job.nodes + more}" for more in (1, 2)] + ["ExcNodeList=gpu03"]

    def _note_counts(self, name: str, change: str) -> None:
        """change: as in NumNodes=1-3."""
        if change.startswith("NumNodes="):
            least, most = map(int, change.partition("=")[2].split("-"))
            self.counts_of.setdefault(name, set()).update(range(least, most + 1))

    def widen_what_was_narrowed(self) -> None:
        before = set(self._narrowed)
        super().widen_what_was_narrowed()
        for name in before - self._narrowed:
            self.counts_of.setdefault(name, set()).update(range(1, NODES + 1))

    def move_to_another_account(self, job: str) -> str | None:
        """Of a waiting job; the account is that of another virtual cluster."""
        found = self._pick_waiting(job)
        if not found:
            return None
        number, name, user, account = found
        fitting = [one for one in self._accounts_for(self.scene.jobs[name]) if one != account]
        if not fitting:
            return None
        other = self._dice.choice(fitting)
        self._befalls(name)
        words = ["scontrol", "update", f"JobId={number}", f"Account={other}"]
        done = self.scene.cluster.run(words, user=user, check=False, timeout=15)
        if done.returncode:
            return f"{name} ({number}) from {account} to {other}: {done.stderr.strip()[-80:]}"
        self.moves.append(Move(name, number, time.time(), other))
        self._befalls(name)
        self.later(CELLS_AFTER_S, f"cells after the move of {name}", self._read_cells)
        return f"{name} ({number}) from {account} to {other}"

    def _accounts_for(self, job: Job) -> list[str]:
        """Return the accounts to which a job may be moved: one that cannot save must fit into the cells there."""
        assert isinstance(self.scene, TenantScene)
        tenants = self.scene.tenants.items()
        return [name for name, own in tenants if job.trains or not own.in_parts or job.gpus <= GPUS_PER_PART]

    def accounts_of(self, job: Job) -> set[str]:
        return {job.tenant, *(one.account for one in self.moves if one.job == job.name)}

    def _pick_waiting(self, job: str) -> tuple[str, str, str, str] | None:
        """id, name, user and account of this job, or of any other one that waits."""
        if "slurmctld" in self._away:
            return None
        words = ["squeue", "-h", "-r", "-t", "PENDING", "-p", "gpu", "-o", "%i|%j|%u|%a"]
        lines = [line.split("|") for line in self.scene.cluster.run(words, timeout=15).stdout.splitlines()]
        waiting = [line for line in lines if line[1] in self.scene.jobs and not self.scene.jobs[line[1]].foreign]
        chosen = [line for line in waiting if line[0] == job] or waiting
        if not chosen:
            return None
        number, name, user, account = self._dice.choice(chosen)
        return number, name, user, account

    def read_cells(self, _job: str) -> str:
        self._read_cells()
        return ""

    def _read_cells(self) -> None:
        """Where the controller answers."""
        done = self.scene.command("cells", "--json")
        if not done.returncode:
            self.cells.append((time.time(), json.loads(done.stdout)))

    def _befalls(self, name: str, seconds: float = SEEN_AFTER) -> None:
        """As of all troubles; also for the tasks of an array, which are judged by names of their own."""
        for one in {name, *tasks(self.scene.jobs[name])} if name in self.scene.jobs else {name}:
            super()._befalls(one, seconds)
