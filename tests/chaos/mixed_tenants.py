"""What the campaign with virtual clusters (VCs) has with `--mixed`: its scene, its jobs, its troubles, and what is judged of them.

The promises of guarantees.py hold for these jobs, too, with what the manual states:

- An array's tasks are judged one by one. Of a throttled array as many waiting tasks count as may start; none is judged by the time
  that it waits, as the throttle alone may be the reason. A decision for one counts from the last start or end of another one.
- A job that names or excludes a node, or requests a feature, counts and is not judged by that time: jobs in cells may hold it.
- A running job counts with the nodes that it holds, a waiting elastic one with its most GPUs, a job of whole nodes with these.
- While a heterogeneous job runs, which the controller does not manage, no wait is judged: it may hold GPUs of a VC.
- With `--reloads` a VC owns at most what any of its configurations gives it, where the size of an elastic job is judged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

from tests.chaos import mixed_tenant_judges as judges
from tests.chaos.cell_reloads import CellReloads
from tests.chaos.checks import Check, logged_runs
from tests.chaos.guarantees import Grant, Shown
from tests.chaos.idle import MANAGED
from tests.chaos.mixed_tenant_judges import Condition, Violation
from tests.chaos.mixed_tenant_troubles import MixedTenantTroubles
from tests.chaos.mixed_tenant_workload import MixedJob, mixed_tenant_jobs
from tests.chaos.run import CONFIG, ChaosRun
from tests.chaos.samples import Sample, Waiting
from tests.chaos.scene import task_name
from tests.chaos.tenant_scene import PartScene, TenantScene
from tests.chaos.tenants import GPUS_PER_NODE, OWNED, PARTED, Tenant
from tests.chaos.windows import Window, Windows
from tiresias.scheduler.host_lists import hosts

POLICY = {
    "admission": "virtual_clusters",
    "max_preemptions": 1000,
    "sizing": "minimum_first",
    "preemption_cost": 1.0,
    "cooldown": 0.0,
}
SETTLED_S = 5.0  # after the end of an unmanaged job, in which its GPUs become those of the VC again
RUNS = "select job.id, run.start, run.gpus, run.account, run.cells from run join job using (key)"
RESIZES = "select count(*) from intent where kind = 'resize' and outcome like 'parked%'"


class MixedTenantScene(TenantScene):
    """The scene of tenants with a folder in which jobs note what they depend on."""

    def _prepare(self, config: dict[str, Any]) -> None:
        super()._prepare(config)
        (self.folder / "dependencies").mkdir()
        (self.folder / "dependencies").chmod(0o1777)

    def mixed(self) -> dict[str, MixedJob]:
        """Return the jobs by name."""
        return {name: job for name, job in self.jobs.items() if isinstance(job, MixedJob)}

    def conditions(self) -> dict[str, Condition]:
        """Return what the dependent jobs wait for, of those that found the other job in the queue."""
        found = {}
        for file in (self.folder / "dependencies").iterdir():
            kind, parent, number = [*file.read_text().split(), ""][:3]
            if number:
                found[file.name] = Condition(kind, parent, number, self.jobs[parent].tasks)
        return found


class MixedPartScene(MixedTenantScene):
    """The same with sockets that starts select."""

    tenants, shape = PARTED, PartScene.shape


class MixedTenants(ChaosRun):
    """The parts of the campaign."""

    scene_of: type[TenantScene] = MixedTenantScene
    troubles_of = MixedTenantTroubles
    config: Mapping[str, dict[str, Any]] = {**CONFIG, "policy": {**CONFIG["policy"], **POLICY}}
    max_job_id = 300  # tasks of arrays have ids of their own
    every = 5.0
    jobs_of_tenants = staticmethod(mixed_tenant_jobs)
    scene: MixedTenantScene
    troubles: MixedTenantTroubles
    reloads: CellReloads | None

    def shown(self, sample: Sample) -> Shown:
        return shown(sample, self.scene.mixed())

    def named_nodes(self) -> Mapping[str, tuple[str, str]]:
        return {name: (job.required, job.excluded) for name, job in self.scene.mixed().items()}

    def outages(self, check: Check) -> Windows:
        """Add the times of jobs that the controller does not manage."""
        found: Windows = super().outages(check)  # type: ignore[misc]
        return Windows([*found.found, *self._unmanaged(check)])

    def in_its_place(self, check: Check, grant: Grant) -> Iterable[float]:
        """Return when other tasks of the job's throttled array started and ended."""
        throttles = {name for name, job in self.scene.mixed().items() if job.throttle}
        return judges.moments_of_other_tasks(check.logged, throttles, grant.job)

    def _unmanaged(self, check: Check) -> Iterator[Window]:
        jobs = self.scene.mixed()
        for run in check.logged:
            if run.name in jobs and jobs[run.name].foreign:
                yield Window(run.start - 1, run.end + SETTLED_S)

    def wind_down(self) -> list[str]:
        found = super().wind_down()
        self._end_what_never_starts()
        return found

    def _end_what_never_starts(self) -> None:
        """A job whose condition can no longer be met is cancelled by Slurm, and those that depend on it."""
        runs, jobs = logged_runs(self.scene.cluster.log / "jobcomp.log"), self.scene.jobs
        done = {(run.name, run.id) for run in runs if run.state == "COMPLETED"}
        strict = {name: one for name, one in self.scene.conditions().items() if one.kind == "afterok"}
        for _ in strict:  # one may depend on another one
            for name, one in strict.items():
                completed = sum(other == one.parent for other, _ in done)
                if completed < one.tasks or jobs[one.parent].fate:
                    jobs[name].fate = jobs[name].fate or "its condition was not met"

    def check_more(self, check: Check) -> None:
        """Add what these kinds of jobs promise."""
        check.windows = Windows([*check.windows.found, *self._unmanaged(check)])
        super().check_more(check)
        jobs = self.scene.mixed()
        sizes = {name: job.sizes for name, job in jobs.items() if job.sizes}
        with closing(sqlite3.connect(f"file:{check.journal}?mode=ro", uri=True)) as db:
            rows, resizes = db.execute(RUNS).fetchall(), db.execute(RESIZES).fetchone()[0]
        in_cells = [(self.sampler.name(job, start), gpus, of) for job, start, gpus, of, cells in rows if cells]
        self._judge_sizes(check, sizes, in_cells)
        check.judged["changes_of_running_jobs"] = resizes
        check.evidence["refused"] = judges.refused(self.scene.submitted().items())
        self._judge_order(check, jobs)
        self._judge_nodes(check, jobs)
        self._judge_accounts(check, [(job, start, account) for job, start, _, account, _ in rows])
        kinds = [jobs[run.name].kind for run in check.logged if run.name in jobs]
        check.judged |= {f"runs_{kind}": kinds.count(kind) for kind in sorted(set(kinds))}

    def _judge_sizes(
        self, check: Check, sizes: Mapping[str, frozenset[int]], in_cells: Iterable[tuple[str, int, str]]
    ) -> None:
        """in_cells: name, GPUs and account of each run in cells."""
        self._note(check, "sizes", judges.other_sizes(check.logged, sizes))
        self._note(check, "sizes", judges.beyond_cells(in_cells, sizes, self._most_nodes()))
        changes = judges.size_changes(check.logged, sizes)
        check.evidence["same_sizes"] = judges.same_sizes(len(self.scene.jobs), changes)
        check.judged |= {
            "elastic_jobs": len({run.name for run in check.logged if run.name in sizes}),
            "size_changes": len(changes),
            "grown": sum(before < after for _, before, after in changes),
            "jobs_that_changed": len({name for name, _, _ in changes}),
        }

    def _most_nodes(self) -> dict[str, int]:
        """Return how many nodes each VC owns at most."""
        layouts = self.reloads.layouts.values() if self.reloads else ()
        declared: list[Mapping[str, Tenant]] = [self.scene.tenants, *(one.tenants for one in layouts)]
        return {name: max(one[name].nodes for one in declared if name in one) for name in self.scene.tenants}

    def _judge_order(self, check: Check, jobs: Mapping[str, MixedJob]) -> None:
        throttles = {name: job.throttle for name, job in jobs.items() if job.throttle}
        self._note(check, "throttled", judges.throttled(check.logged, throttles))
        found, again = self.scene.conditions(), self.troubles.requeued
        conditions = {name: one for name, one in found.items() if one.parent not in again}
        self._note(check, "before_others", judges.before_others(check.logged, conditions))
        check.judged["conditions_judged"] = len(conditions.keys() & {run.name for run in check.logged})

    def _judge_nodes(self, check: Check, jobs: Mapping[str, MixedJob]) -> None:
        self._note(check, "wrong_nodes", judges.wrong_nodes(check.logged, jobs, self.scene.rack))
        counts = {
            name: {job.nodes} | self.troubles.counts_of.get(name, set()) for name, job in jobs.items() if job.nodes
        }
        self._note(check, "node_counts", judges.node_counts(check.logged, counts))
        changed = self.troubles.narrowed
        for what in ("nodes_changed", "request_changed"):  # the request of its submission no longer holds
            check.evidence[what] = [
                words for words in check.evidence[what] if words.split()[0].rstrip(":") not in changed
            ]

    def _judge_accounts(self, check: Check, journaled: Iterable[tuple[str, float, str]]) -> None:
        moves, troubles = self.troubles.moves, self.troubles
        self._note(check, "uncharged", judges.uncharged(check.logged, journaled, moves))
        broken, holders = judges.foreign_cells(troubles.cells, self._accounts_about, self.sampler.name)
        self._note(check, "foreign_cells", broken)
        ran = {(run.name, run.id) for run in check.logged}
        check.judged |= {"moved": len(moves), "moved_that_ran": len({(one.job, one.id) for one in moves} & ran)}
        check.judged |= {"cell_reports": len(troubles.cells), "holders_judged": holders}

    def _accounts_about(self, job: str, moment: float) -> set[str]:
        """Return the accounts of a job in the samples around a moment."""
        near = (one for one in self.sampler.samples if abs(one.time - moment) <= judges.SEEN_AFTER_S)
        return {one.accounts[job] for one in near if job in one.accounts}

    def _note(self, check: Check, what: str, found: Iterable[Violation]) -> None:
        check.evidence.setdefault(what, [])
        for name, words in found:
            check.note(what, name.partition("_")[0], words)


def shown(sample: Sample, jobs: Mapping[str, MixedJob]) -> Shown:
    """Return what a sample shows, by names of tasks."""
    managed = {number: name for number, name in sample.names.items() if name in jobs and not jobs[name].foreign}
    pending = {one.id for one in sample.waiting}
    eligible = [one for one in sample.waiting if one.reason in MANAGED and one.id in managed]
    judged = {one.id for one in eligible if not (jobs[one.name].names_hardware or jobs[one.name].throttle)}
    counted = {one.id for one in _may_start(sample, eligible, jobs)} - judged
    names = {number: task_name(number, name) for number, name in managed.items()}
    running = {number for number in managed if number not in pending}
    guaranteed = {
        names[job]: hosts(sample.nodes[job]) for job in sample.guaranteed if job in sample.nodes and job in names
    }
    return Shown(
        sample.time,
        frozenset(names[number] for number in judged),
        frozenset(names[number] for number in running | counted),
        guaranteed,
        {
            names[number]: account if account in OWNED else ""
            for number, account in sample.accounts.items()
            if number in names
        },
        {names[number]: _gpus_of_nodes(jobs[name], sample.nodes.get(number, "")) for number, name in managed.items()},
    )


def _gpus_of_nodes(job: MixedJob, nodes: str) -> int:
    return max(job.most_gpus if not nodes else job.gpus, len(hosts(nodes)) * GPUS_PER_NODE if nodes else 0)


def _may_start(sample: Sample, eligible: Iterable[Waiting], jobs: Mapping[str, MixedJob]) -> Iterator[Waiting]:
    """Yield the waiting tasks that their throttle lets start, and all other jobs."""
    pending, left = {one.id for one in sample.waiting}, dict[str, int]()
    for number, name in sample.names.items():
        if name in jobs and jobs[name].throttle and number not in pending:
            left[name] = left.get(name, jobs[name].throttle) - 1
    for one in eligible:
        if jobs[one.name].throttle:
            left[one.name] = left.get(one.name, jobs[one.name].throttle) - 1
        if left.get(one.name, 0) >= 0:
            yield one
