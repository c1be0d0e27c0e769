"""The campaign with virtual clusters (VCs): a real Slurm of 12 nodes x 8 GPUs in racks, three VCs with two users each, and faults.

    python tests/chaos/virtual_clusters.py [--jobs 200] [--seed N] [--suite forky] [--parts] [--mixed] [--reloads] [--json FILE]

Each VC is an account of Slurm. Nodes fail and are drained, the controller and slurmctld are killed with SIGKILL, also at steps of
starts and preemptions. What is checked: checks.py, and the promises of guarantees.py. With --parts each node has two sockets with a
GPU type of their own each, one VC owns sockets, and the GPUs that each run saw are checked: devices.py (Slurm 24.11 or newer). With
--reloads the VCs are declared anew while jobs run (cell_reloads.py), and each promise is judged by the configuration of its time.
With --mixed the jobs are of many kinds, and their owners change them: mixed_tenants.py. All three can be combined. Exit code 1 when
anything is broken.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.virtual_clusters", *sys.argv[1:]])

import argparse
import math
import random
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np

from tests.chaos import guarantees
from tests.chaos.cell_reloads import CellReloads
from tests.chaos.checks import Check, LoggedRun
from tests.chaos.configurations import Stretch
from tests.chaos.guarantees import Grant, Shown
from tests.chaos.mixed_tenants import MixedPartScene, MixedTenants
from tests.chaos.own_starts import frustrated, own_starts
from tests.chaos.part_tenants import PLACEMENT, PartTenants
from tests.chaos.reload_evidence import ReloadEvidence
from tests.chaos.run import CONFIG, GATE, ChaosRun, Jobs, add_options, carry_out
from tests.chaos.samples import Sample
from tests.chaos.scene import Job, Scene, task_name, tasks
from tests.chaos.shown_samples import shown_by, within
from tests.chaos.stored_requests import changed_requests, other_node_counts
from tests.chaos.tenant_scene import PartScene, TenantScene, TenantTroubles
from tests.chaos.tenant_workload import ARRIVAL_S, tenant_jobs
from tests.chaos.tenants import OUTSIDE, OWNED, Tenant
from tests.chaos.windows import Window, Windows
from tiresias.sandbox.replay import latency
from tiresias.slurm_plugin.state.journal import KEPT_DECISIONS
from tiresias.slurm_plugin.state.journal_history import History

EVERY_S = 10.0  # between troubles that come by themselves, on average
RECOVERY_S = 10.0  # after an outage, in which nodes are bad that have not registered yet
# A job that has been preempted max_preemptions times keeps its GPUs, which the cells of a tenant may need.
POLICY = {"admission": "virtual_clusters", "max_preemptions": 1000}
RUNS = "select job.id, run.start, run.cells from run join job using (key) where run.cells != ''"
VICTIMS = """select victim.id, victim.beneficiary, victim.began, run.cells from intent as victim
join run on run.key = victim.key and run.restart = victim.restart where victim.kind = 'preempt' and victim.outcome like 'parked%'"""


Part = tuple[Stretch, Mapping[str, Tenant], Sequence[Shown]]  # a time, the VCs in it, and its samples


class TenantCampaign(ChaosRun):
    scene_of: type[TenantScene] = TenantScene
    troubles_of = TenantTroubles
    config: Mapping[str, dict[str, Any]] = {**CONFIG, "policy": {**CONFIG["policy"], **POLICY}}
    backlog = 60
    every = EVERY_S
    jobs_of_tenants = staticmethod(tenant_jobs)

    def __init__(self, args: argparse.Namespace) -> None:
        self._left = args.jobs
        super().__init__(args, f"vcs-{os.getpid()}", {"gate": GATE})
        assert isinstance(self.scene, TenantScene)
        assert isinstance(self.troubles, TenantTroubles)
        self.reloads = CellReloads(self.scene, self.troubles, args.seed, self.report) if args.reloads else None

    def trouble(self) -> None:
        """Jobs arrive and things go wrong, until all jobs are submitted or --minutes are over."""
        start, planned = time.time(), self.planned_troubles(self._left * ARRIVAL_S, self.every)
        while time.time() < start + self._seconds and (self._left or not self.scene.all_submitted()):
            self.trouble_once(planned, time.time() - start, self._jobs)

    def trouble_once(self, planned: list[tuple[float, str]], passed: float, jobs: Jobs) -> None:
        super().trouble_once(planned, passed, jobs)
        if self.reloads:
            self.reloads.change_if_due()

    def wind_down(self) -> list[str]:
        if self.reloads:
            self.reloads.end()
        return super().wind_down()

    def _jobs(self, scene: Scene, dice: random.Random, number: int, start: float) -> Iterator[Job]:
        for job in islice(self.jobs_of_tenants(scene, dice, number, start, self.scene_of.tenants), self._left):
            self._left -= 1
            yield job

    def check_more(self, check: Check) -> None:
        """Add the promises of the VCs to the invariants, and how many cases were judged."""
        jobs = self.scene.jobs.values()
        tenant_of = {name: job.tenant for job in jobs if job.tenant in OWNED for name in tasks(job)}
        shown = [(sample.published, self.shown(sample)) for sample in self.sampler.samples if sample.is_complete]
        in_force = self._in_force(check, shown, tenant_of)
        parts = [(stretch, tenants, within(stretch, shown)) for stretch, tenants in in_force]
        with closing(sqlite3.connect(f"file:{check.journal}?mode=ro", uri=True)) as db:
            self._check_grants(check, db, [stretch.first for stretch, _ in in_force])
            self._check_runs(check, db)
            self._check_victims(check, db, parts, tenant_of)
            self._check_requests(check, db)
        check.evidence |= {"kept_out": [], "overbooked": []}
        check.judged |= {"entitled_jobs": 0, "entitled_starts": 0, "holders_seen": 0}
        for _, tenants, samples in parts:
            self._check_cells(check, samples, tenant_of, tenants)
        check.judged |= _starts(History.of(check.journal))

    def _in_force(
        self, check: Check, shown: Sequence[tuple[float, Shown]], tenant_of: Mapping[str, str]
    ) -> list[tuple[Stretch, Mapping[str, Tenant]]]:
        """Return which VCs there were when; with reloads, judge these."""
        if not self.reloads:
            return [(Stretch(-math.inf, math.inf, ""), self.scene_of.tenants)]
        evidence = ReloadEvidence(self.reloads, self.scene, self.sampler, shown)
        evidence.add(check, tenant_of, self._gpus(), self.troubles.blind, self.troubles.unlisted)
        return [(one, self.reloads.layouts[one.layout].tenants) for one in evidence.in_force]

    def _check_cells(
        self, check: Check, samples: Sequence[Shown], tenant_of: Mapping[str, str], tenants: Mapping[str, Tenant]
    ) -> None:
        """Judge samples of a time in which the VCs were the same."""
        deadline = self.config["preemption"]["deadline"]
        broken, judged = guarantees.kept_out(samples, tenant_of, self._gpus(), deadline, check.windows, tenants)
        assert isinstance(self.scene, TenantScene)
        check.evidence["kept_out"] += [one for one in broken if one.partition(" ")[0] not in self._special()]
        check.evidence["overbooked"] += guarantees.overbooked(samples, tenant_of, self.scene.rack, tenants)
        check.judged["entitled_jobs"] += judged
        at_once = guarantees.entitled_starts(samples, tenant_of, self._gpus(), tenants)
        check.judged["entitled_starts"] += len(at_once)
        check.judged["holders_seen"] += sum(len(one.guaranteed) for one in samples)

    def _special(self) -> set[str]:
        """Jobs that the campaign or their owners ended."""
        return {job.name for job in self.scene.jobs.values() if job.fate}

    def outages(self, _check: Check) -> Windows:
        """Return the times that do not count as a wait for a job's cells."""
        troubles = self.troubles
        return guarantees.outages_of(troubles.blind, troubles.bad_nodes, troubles.changes)

    def shown(self, sample: Sample) -> Shown:
        """Return what a sample shows of the jobs that are judged."""
        return shown_by(sample)

    def _check_grants(self, check: Check, db: sqlite3.Connection, reloads: Sequence[float]) -> None:
        """reloads: epoch seconds from which on another configuration was in force: it may have no cells for an earlier grant."""
        outages = Windows([*self.outages(check).found, *self._frustrated(check, db)])
        found = guarantees.since_last(guarantees.grants(db), lambda one: (*reloads, *self.in_its_place(check, one)))
        deadline = self.config["preemption"]["deadline"]
        broken, waits = guarantees.late(found, deadline, outages, self._task_at)
        check.evidence["late"] = broken
        check.judged |= {"guaranteed_starts": len(waits), **_quantiles("guaranteed_wait", waits)}

    def in_its_place(self, check: Check, grant: Grant) -> Iterable[float]:
        """Return when other jobs started and ended that kept this one from its start, in epoch seconds."""
        return ()

    def _frustrated(self, check: Check, db: sqlite3.Connection) -> list[Window]:
        """Return the times of starts whose nodes Slurm itself gave to another job."""
        blind = Windows([Window(first, last) for first, last in self.troubles.blind])
        found = list(frustrated(db, own_starts(db, check.logged, blind), self._task_at))
        check.judged["starts_frustrated_by_slurm"] = len(found)
        return found

    def _check_runs(self, check: Check, db: sqlite3.Connection) -> None:
        """Compare the nodes of the cells with those in Slurm's log: of the start, else those that the run was given later. A
        slurmctld that was killed may have forgotten the pin of a start; the run then has no cells in the journal."""
        later = {(job, round(start)): cells for job, start, cells in db.execute(RUNS)}
        submitted = {name: one.time for name, one in self.scene.submitted().items()}
        runs = [(run.id, run.start, submitted.get(run.name, 0.0)) for run in check.logged]
        started = guarantees.cells_of_starts(db, runs)
        requested = {job.name: job.nodes for job in self.scene.jobs.values()}
        pairs, unpinned = [], list[LoggedRun]()
        for run, own in zip(check.logged, started, strict=True):
            given, nodes = later.get((run.id, run.start), ""), guarantees.nodes_of(own)
            keeps_limit = guarantees.keeps_its_limit(nodes, run.nodes, requested.get(run.name, 0))
            cells = guarantees.nodes_of(given) if keeps_limit else nodes or guarantees.nodes_of(given)
            forgotten = run.name in check.shaken and not given and cells != frozenset(run.nodes)
            if cells and not forgotten:
                pairs.append((run, cells))
            elif nodes:
                unpinned.append(run)
        found = [(run.name, cells, frozenset(run.nodes)) for run, cells in pairs]
        check.evidence["elsewhere"] = guarantees.elsewhere(found)
        check.judged |= {"runs_in_cells": len(found), "unpinned": len(unpinned)}

    def _check_requests(self, check: Check, db: sqlite3.Connection) -> None:
        nodes = {job.name: job.nodes for job in self.scene.jobs.values() if job.nodes}
        broken, judged = changed_requests(db, self._submitted_as, nodes, self.named_nodes())
        check.evidence["request_changed"] = broken
        check.evidence["nodes_changed"] = other_node_counts([(run.name, len(run.nodes)) for run in check.logged], nodes)
        check.judged["requests_judged"] = judged

    def named_nodes(self) -> Mapping[str, tuple[str, str]]:
        """Return the nodes that jobs name and exclude, by name of the job."""
        return {}

    def _submitted_as(self, job: str, moment: float) -> str:
        """Return which job got this id at that moment; a killed slurmctld may give it to another one seconds later."""
        array = job.partition("_")[0]
        alike = {name: abs(one.time - moment) for name, one in self.scene.submitted().items() if one.id == array}
        nearest = min(alike, key=alike.__getitem__, default="")
        return nearest if alike.get(nearest, math.inf) <= 2.0 else ""

    def _gpus(self) -> dict[str, int]:
        return {name: job.gpus for job in self.scene.jobs.values() for name in tasks(job)}

    def _check_victims(
        self, check: Check, db: sqlite3.Connection, parts: Sequence[Part], tenant_of: Mapping[str, str]
    ) -> None:
        rows, name = db.execute(VICTIMS).fetchall(), self._task_at
        guaranteed = [
            (name(job, began), name(other, began), began) for job, other, began, cells in rows if cells and other
        ]
        calm = [each for each in guaranteed if not check.windows.touch(each[2] - RECOVERY_S, each[2])]
        check.evidence["crossed"], check.judged["crossings_judged"] = [], 0
        for stretch, tenants, samples in parts:
            own = [each for each in calm if stretch.covers(each[2], each[2])]
            check.judged["crossings_judged"] += len(own)
            check.evidence["crossed"] += guarantees.crossed(own, samples, tenant_of, self._gpus(), tenants)
        check.judged["guaranteed_preempted"] = len(guaranteed)
        check.judged["opportunistic_preempted"] = sum(not cells for *_, cells in rows)
        check.judged["steps_redone_by_them"] = sum(
            self._redone(job, began) for job, _, began, cells in rows if not cells
        )

    def _task_at(self, job: str, moment: float) -> str:
        """Return which job, or which task of an array, bore the id at about that moment; "" where no sample shows it."""
        return task_name(job, self.sampler.name(job, moment))

    def _redone(self, job: str, began: float) -> int:
        """Steps that the run after a preemption did again."""
        result = next((one for one in self.scene.results() if one.id == self._task_at(job, began)), None)
        return next((run.redone for run in result.runs if run.start > began), 0) if result else 0


class MixedCampaign(MixedTenants, TenantCampaign):
    """The same with jobs of many kinds, which their owners change."""


class PartCampaign(PartTenants, TenantCampaign):
    """The same with sockets that starts select, and the GPUs that each run saw."""

    scene_of = PartScene
    config: Mapping[str, dict[str, Any]] = {**TenantCampaign.config, "placement": PLACEMENT}


class MixedPartCampaign(PartTenants, MixedTenants, TenantCampaign):
    """Both."""

    scene_of = MixedPartScene
    config: Mapping[str, dict[str, Any]] = {**MixedTenants.config, "placement": PLACEMENT}


CAMPAIGNS: Mapping[tuple[bool, bool], type[TenantCampaign]] = {  # by --mixed and --parts
    (False, False): TenantCampaign,
    (False, True): PartCampaign,
    (True, False): MixedCampaign,
    (True, True): MixedPartCampaign,
}


def _starts(history: History) -> dict[str, float]:
    """Seconds from the decision to start a job to the state RUNNING: the controller's calls and Slurm's own start."""
    spans = latency.spans(history.decisions(limit=KEPT_DECISIONS)[::-1], "start")
    return _quantiles("start", spans)


def _quantiles(name: str, seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {}
    median, p95, largest = (round(float(value), 2) for value in np.percentile(seconds, [50, 95, 100]))
    return {f"{name}_median": median, f"{name}_p95": p95, f"{name}_largest": largest}


def main(argv: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--parts", action="store_true", help="starts select the sockets of nodes, by typed GRES")
    parser.add_argument("--reloads", action="store_true", help="the virtual clusters are declared anew while jobs run")
    parser.add_argument("--mixed", action="store_true", help="jobs of many kinds, which their owners change")
    add_options(parser, minutes=60.0)
    args = parser.parse_args(None if argv is None else list(argv))
    print(f"virtual clusters: seed {args.seed}, {args.jobs} jobs of {', '.join(OWNED)} and {OUTSIDE}", flush=True)
    return carry_out(CAMPAIGNS[args.mixed, args.parts](args), args)


if __name__ == "__main__":
    sys.exit(main())
