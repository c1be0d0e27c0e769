"""The campaign of mode assist: the controller and slurmctld are killed while jobs are preempted for one that Slurm ranks first.

    python tests/chaos/assist.py [--minutes 10] [--seed N] [--suite forky] [--json FILE] [--keep]

The jobs are those of run.py, one in LONG_IN of them long, so that it outlasts the jobs that wait, and CPU-only jobs. What is
checked: checks.py but for `idle`, as a job may wait beside free GPUs in Slurm's order, and

touched   unmanaged and CPU-only jobs that the controller held, preempted or released
started   starts of jobs by the controller, which Slurm alone starts

Exit code 1 when anything is broken.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.assist", *sys.argv[1:]])

import argparse
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

from tests.chaos.checks import Check
from tests.chaos.run import CONFIG, GATE, ChaosRun, add_options, carry_out
from tests.chaos.scene import USERS, Job, Scene
from tests.chaos.workload import ARRIVAL, KINDS, ROUND, Draft, plain

LONG_IN = 10
LONG, SHORT = (40.0, 90.0), (0.5, 5.0)  # seconds that jobs train
POLICY = {"min_run": 2.0, "preemption_cost": 0.5, "max_preemptions": 6}
ACTS = "select id, kind, began from intent where kind != 'shadow'"
PREEMPTIONS = "select count(*) from intent where kind = 'assist'"
PARKED = "select count(*) from intent where kind = 'assist' and outcome like 'parked%'"


def cpu_only(one: Draft) -> Job:
    """A job without GPUs in the managed partition."""
    words = ["--parsable", f"--job-name={one.name}", "--chdir=/tmp", "--output=/dev/null"]
    cpus = one.dice.randint(1, 8)
    return one.other(
        "sbatch", *words, "--ntasks=1", f"--cpus-per-task={cpus}", "--wrap", f"sleep {one.seconds}", foreign=True
    )


ASSIST_KINDS: Mapping[Callable[[Draft], Job], int] = {**KINDS, plain: 120, cpu_only: 12}


def jobs(scene: Scene, dice: random.Random, number: int, start: float) -> Iterator[Job]:
    """Yield the arrivals of a round."""
    moment, place = 0.0, 0
    while (moment := moment + dice.expovariate(1 / ARRIVAL)) < ROUND:
        place += 1
        seconds = round(dice.uniform(*(LONG if dice.randrange(LONG_IN) == 0 else SHORT)), 1)
        gpus, name = dice.choice([1, 1, 2, 2, 4, 4, 8, 16]), f"chaos-{number}-{place}"
        draft = Draft(scene, dice, name, dice.choice(USERS), gpus, seconds, start + moment)
        yield dice.choices(list(ASSIST_KINDS), list(ASSIST_KINDS.values()))[0](draft)


class AssistCampaign(ChaosRun):
    config: Mapping[str, Any] = {**CONFIG, "mode": "assist", "policy": {**CONFIG["policy"], **POLICY}}
    jobs_of = staticmethod(jobs)

    def check_more(self, check: Check) -> None:
        """Replace what mode exact alone promises, and count the preemptions."""
        check.evidence["idle"] = []
        with closing(sqlite3.connect(f"file:{check.journal}?mode=ro", uri=True)) as db:
            acts = db.execute(ACTS).fetchall()
            preemptions, parked = (db.execute(query).fetchone()[0] for query in (PREEMPTIONS, PARKED))
        foreign = {job.name for job in self.scene.jobs.values() if job.foreign}
        check.evidence["touched"] = [
            f"{name} ({job}): {kind}" for job, kind, began in acts if (name := self.sampler.name(job, began)) in foreign
        ]
        check.evidence["started"] = [f"{job}: {kind}" for job, kind, _ in acts if kind == "start"]
        check.judged |= {"preemptions_decided": preemptions, "preemptions_parked": parked}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, minutes=10.0)
    args = parser.parse_args(argv)
    print(f"mode assist: seed {args.seed}, {args.minutes:g} minutes", flush=True)
    return carry_out(AssistCampaign(args, f"assist-{os.getpid()}", {"gate": GATE}), args)


if __name__ == "__main__":
    sys.exit(main())
