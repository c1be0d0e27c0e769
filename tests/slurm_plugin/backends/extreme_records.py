"""Random and extreme records of jobs and nodes, read by both back ends and shown to `decide`.

    python -m tests.slurm_plugin.backends.extreme_records --records 100000 --seed 1 --json FILE        (make test-records)

Each batch joins extreme records to those that a real Slurm of one version printed (22.05, 24.11, 26.05). The JSON of squeue and
scontrol goes through the back end "commands", rows of the same values through the back end "pyslurm", then through the ledger,
`observe`, `decide`, the reasons and the published status. Reported:

records        of jobs, each through both back ends; nodes: the same of nodes
exceptions     raised anywhere, and errors for which the quarantine set a job aside
unreadable     records that became a job of which only the id is known, or an alarm
unmanaged      jobs that can run on no cluster, or are more than may be managed
managed        jobs with extreme values that were ranked like others
affected       other jobs whose columns in the snapshot differ from those without the extreme records
unbounded      values beyond the limits of bounds.py in what the back ends returned

Exit code 1 unless exceptions, affected and unbounded are 0.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest import mock

from tests.slurm_plugin.backends import extremes
from tests.slurm_plugin.backends.fake_slurm import Answers, Commands, Pyslurm
from tiresias.scheduler.decide import decide
from tiresias.scheduler.model import Jobs
from tiresias.scheduler.next_change import next_change
from tiresias.slurm_plugin.backends.bounds import MAX_NUMBER
from tiresias.slurm_plugin.backends.interface import SlurmJob, SlurmNode, SlurmSnapshot
from tiresias.slurm_plugin.cluster.scope import Scope
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.observation.observer import Observer
from tiresias.slurm_plugin.sockets.publication import Publication
from tiresias.slurm_plugin.sockets.status_document import whole_status
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.ledger import Ledger
from tiresias.slurm_plugin.state.quarantine import Quarantine

BATCH = 40  # extreme records at a time
MEMORY = Path("/dev/shm")
Columns = dict[str, tuple[str, ...]]


class Campaign:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._next_id = extremes.FIRST_ID
        self._alone: dict[tuple[str, str], Columns] = {}
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self, records: int) -> None:
        while self.counts["records"] < records:
            version = extremes.VERSIONS[self.counts["batches"] % len(extremes.VERSIONS)]
            count = min(BATCH, records - self.counts["records"])
            self.batch(version, [self._job(version) for _ in range(count)], [self._node(version) for _ in range(2)])

    def batch(self, version: str, jobs: Sequence[dict[str, Any]], nodes: Sequence[dict[str, Any]]) -> None:
        """Extreme records beside the captured ones."""
        self.counts.update({"batches": 1, "records": len(jobs), "nodes": len(nodes)})
        for backend in ("commands", "pyslurm"):
            alone = self._alone.get((version, backend)) or self._columns(version, backend, [], [])
            self._alone[version, backend] = alone
            try:
                found = self._columns(version, backend, jobs, nodes)
            except Exception:
                self.counts["exceptions"] += 1
                self.failures.append(f"{version} {backend}: {traceback.format_exc()}")
                continue
            differ = [job for job, values in alone.items() if found.get(job) != values]
            self.counts["affected"] += len(differ)
            self.failures += [f"{version} {backend}: {job}: {alone[job]} != {found.get(job)}" for job in differ]

    def _job(self, version: str) -> dict[str, Any]:
        self._next_id += 1
        base = extremes.fresh(self._rng.choice(extremes.captured(version)["jobs"]), self._next_id)
        return extremes.extreme(self._rng, base, self._rng.choice((1, 1, 3, 12)))

    def _node(self, version: str) -> dict[str, Any]:
        self._next_id += 1
        base = {**self._rng.choice(extremes.captured(version)["nodes"]), "name": f"x{self._next_id}"}
        return extremes.extreme(self._rng, base, 4)

    def _columns(
        self, version: str, backend: str, jobs: Sequence[dict[str, Any]], nodes: Sequence[dict[str, Any]]
    ) -> Columns:
        real = extremes.captured(version)
        answers = Answers(version, [*real["jobs"], *jobs], [*real["nodes"], *nodes])
        with mock.patch.object(time, "time", return_value=float(real["time"])):
            rows = [extremes.row(one) for one in answers.jobs]
            slurm = (Commands(answers) if backend == "commands" else Pyslurm(answers, rows)).snapshot()
            self._count(slurm)
            return self._decided(slurm)

    def _count(self, slurm: SlurmSnapshot) -> None:
        odd = [job for job in slurm.jobs if job.raw_id >= extremes.FIRST_ID]
        self.counts["unreadable"] += len(slurm.unreadable) + sum(not job.readable for job in odd)
        self.counts["unmanaged"] += sum(job.readable and bool(job.unmanaged) for job in odd)
        named = [(fields(SlurmJob), job) for job in slurm.jobs] + [(fields(SlurmNode), node) for node in slurm.nodes]
        for columns, one in named:
            wrong = [field.name for field in columns if not _bounded(getattr(one, field.name))]
            self.counts["unbounded"] += len(wrong)
            self.failures += [f"unbounded: {name} of {one}"[:400] for name in wrong]

    def _decided(self, slurm: SlurmSnapshot) -> Columns:
        config, quarantine = Config(partitions=("gpu",)), Quarantine()
        with (
            tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder,
            closing(Journal(Path(folder))) as journal,
        ):
            ledger = Ledger(journal, Scope.of(config), quarantine)
            managed = ledger.apply(slurm)
            snapshot = Observer(config, ledger).observe(slurm, managed, {})
            plan = decide(snapshot, config.policy)
            next_change(snapshot, config.policy)
            about: dict[str, Any] = {"alarms": quarantine.alarms()}
            shown = Publication(about, slurm, snapshot, plan, ledger.jobs, {}, {}, {}, (), config)
            json.dumps(whole_status(shown)).encode()
        errors = [one for one in quarantine.alarms() if "set aside" in one]
        self.counts["exceptions"] += len(errors)
        self.failures += errors
        self.counts["managed"] += sum(job.raw_id >= extremes.FIRST_ID for job in managed)
        return _by_job(snapshot.jobs)


def _by_job(jobs: Jobs) -> Columns:
    """Of the captured jobs, every column as text: nan equals itself there."""
    names = [one.name for one in fields(Jobs) if one.name != "id" and getattr(jobs, one.name) is not None]
    return {
        job: tuple(f"{name}={getattr(jobs, name)[row]}" for name in names)
        for row, job in enumerate(jobs.id)
        if int(job.partition("_")[0].partition("+")[0]) < extremes.FIRST_ID and not _is_small_change(job)
    }


def _is_small_change(job: str) -> bool:
    """An extreme record whose id was changed to a small one."""
    return int(job.partition("_")[0].partition("+")[0]) <= 1


def _bounded(value: object) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return all(map(_bounded, value))
    if isinstance(value, int):
        return -1 <= value < MAX_NUMBER // 2
    return not isinstance(value, str) or value == value.encode(errors="replace").decode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began, campaign = time.monotonic(), Campaign(args.seed)
    campaign.run(args.records)
    names = ("records", "nodes", "exceptions", "unreadable", "unmanaged", "managed", "affected", "unbounded")
    result = {"seed": args.seed, **{name: campaign.counts[name] for name in names}}
    result["seconds"] = round(time.monotonic() - began, 1)
    if args.json:
        args.json.write_text(json.dumps(result | {"failures": campaign.failures[:100]}, indent=1))
    for failure in campaign.failures[:5]:
        print(failure, file=sys.stderr)
    print(json.dumps(result))
    return int(any(campaign.counts[name] for name in ("exceptions", "affected", "unbounded")))


if __name__ == "__main__":
    sys.exit(main())
