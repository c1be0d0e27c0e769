"""The campaign with elastic jobs: their sizes change while the controller and slurmctld are killed, also at steps of these changes.

    python tests/chaos/elastic.py [--minutes 10] [--seed N] [--suite forky] [--json FILE] [--keep]

Two of three jobs are elastic. What is checked: checks.py, which compares the GPUs of each run with Slurm's own log, and that each
run had a size that its owner stated. Exit code 1 when anything is broken.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.elastic", *sys.argv[1:]])

import argparse
import random
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from tests.chaos.checks import Check
from tests.chaos.run import CONFIG, GATE, ChaosRun, add_options, carry_out
from tests.chaos.scene import USERS, Job, Scene
from tests.chaos.workload import ARRIVAL, ROUND, Draft, plain

POLICY = {"sizing": "minimum_first", "preemption_cost": 1.0, "cooldown": 0.0, "min_run": 2.0, "max_preemptions": 12}
SIZES = {1: (1, 16, 1), 2: (2, 16, 2), 4: (1, 8, 1), 8: (2, 8, 2)}  # of a job that requests so many GPUs
RUNS = "select id, restart, run.gpus, elastic from run join job using (key)"
CHANGES = "select count(*) from intent where kind = 'resize' and outcome like 'parked%'"


def elastic(one: Draft) -> Job:
    """Tasks with a GPU each, whose number changes."""
    least, most, step = SIZES[one.gpus]
    found = one.training(one.gpus, f"--elastic={least}-{most}:{step}")
    found.command = [word for word in found.command if not word.startswith("--gpus=")]
    return found


def jobs(scene: Scene, dice: random.Random, number: int, start: float) -> Iterator[Job]:
    """Yield the arrivals of a round."""
    moment, place = 0.0, 0
    while (moment := moment + dice.expovariate(1 / ARRIVAL)) < ROUND:
        place += 1
        seconds = round(min(max(dice.expovariate(1 / 6), 2.0), 30.0), 1)
        gpus, name = dice.choice(list(SIZES)), f"chaos-{number}-{place}"
        draft = Draft(scene, dice, name, dice.choice(USERS), gpus, seconds, start + moment)
        yield dice.choice([elastic, elastic, plain])(draft)


class ElasticCampaign(ChaosRun):
    config: Mapping[str, dict[str, Any]] = {**CONFIG, "policy": {**CONFIG["policy"], **POLICY}}
    jobs_of = staticmethod(jobs)

    def check_more(self, check: Check) -> None:
        """Add that each run had one of its job's sizes, and how many changes there were."""
        with closing(sqlite3.connect(f"file:{check.journal}?mode=ro", uri=True)) as db:
            runs = db.execute(RUNS).fetchall()
            changes = db.execute(CHANGES).fetchone()[0]
        stated = {f"{least}-{most}:{step}": range(least, most + 1, step) for least, most, step in SIZES.values()}
        sized = [run for run in runs if run[3] in stated]
        check.evidence["sizes"] = [str(run) for run in sized if run[2] not in stated[run[3]]]
        check.judged |= {
            "elastic_runs": len(sized),
            "elastic_jobs": len({run[0] for run in sized}),
            "changes_of_running_jobs": changes,
            "kept_their_size": len({run[0] for run in runs if run[3] == "fixed"}),
        }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, minutes=10.0)
    args = parser.parse_args(argv)
    print(f"elastic jobs: seed {args.seed}, {args.minutes:g} minutes", flush=True)
    return carry_out(ElasticCampaign(args, f"elastic-{os.getpid()}", {"gate": GATE}), args)


if __name__ == "__main__":
    sys.exit(main())
