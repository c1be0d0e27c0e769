"""A chaos run: a real Slurm, the real controller, real jobs of two users, and troubles; then the books are checked.

    python tests/chaos/run.py [--minutes 10] [--seed N] [--json FILE] [--keep]        (make test-chaos MINUTES=10 SEED=1)

Jobs and the troubles that come by themselves follow from the seed, which is printed first; those at the steps of a start or a
preemption are drawn as the controller comes there, so two runs of one seed differ in them. What is checked: checks.py. Exit code 1
when anything is broken; what controller and slurmctld logged of the jobs concerned is printed then.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.run", *sys.argv[1:]])

import argparse
import json
import math
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.chaos.checks import Check, story
from tests.chaos.samples import Sampler, controller_outages
from tests.chaos.scene import Job, Scene
from tests.chaos.troubles import Troubles, is_calm
from tests.chaos.workload import ROUND, workload
from tiresias.errors import TiresiasError
from tiresias.sandbox.rootfs import SUITES

EVERY = 4.0  # seconds between troubles that come by themselves, on average
ROUND_POLL_S = 5.0  # until the queue is checked again for space for a round
BACKLOG = 30  # jobs in the queue with which no new round begins: on a slow machine fewer jobs arrive, not ever more
WIND_DOWN = 60.0  # seconds of --minutes without new jobs and troubles
# seconds without any change in the queue, when all trouble is over: longer than any job runs, or backs off
STUCK = 150.0
LONGEST_END = 900.0  # seconds in which all must have ended when all trouble is over, whatever moves
MAX_JOB_ID = 120  # ids come again
GATE = 0.03  # how often the controller waits at a step for something to happen
# Many preemptions, but not for ever: each run makes progress (a start takes a second or two of min_run), and max_preemptions ends
# them. Without that, jobs that wait long are promoted and preempt one another as long as there are two of them.
CONFIG: dict[str, dict[str, Any]] = {
    "policy": {
        "thresholds": [8.0, 60.0],
        "min_run": 3.0,
        "min_run_cost_factor": 0.0,
        "promote_knob": 40.0,
        "max_preemptions": 6,
    },
    "preemption": {"deadline": 6.0, "start_timeout": 3.0, "backoff": 1.0},
}


Jobs = Callable[[Scene, random.Random, int, float], Iterable[Job]]  # the jobs of a round: its number, when it begins


class ChaosRun:
    """A campaign: its scene, its troubles, its jobs, and what is checked afterwards."""

    scene_of: type[Scene] = Scene
    troubles_of: type[Troubles] = Troubles
    config: Mapping[str, dict[str, Any]] = CONFIG
    backlog = BACKLOG
    jobs_of: Jobs = staticmethod(workload)
    max_job_id = MAX_JOB_ID

    def __init__(self, args: argparse.Namespace, name: str, plan: dict[str, Any]) -> None:
        seed = args.seed
        self._seed, self._seconds = seed, args.minutes * 60
        self._began = time.time()
        self.log: list[str] = []
        self._dice, self._round, self._next_round = random.Random(seed), 0, 0.0
        config = {**self.config, "policy": {**self.config["policy"], "name": args.policy}}
        self.scene = self.scene_of(name, {"seed": seed, **plan}, self.max_job_id, args.suite, **config)
        self.troubles = self.troubles_of(self.scene, seed, self.report)
        self.sampler = Sampler(self.scene)

    def report(self, words: str) -> None:
        line = f"{time.time() - self._began:7.2f} s  {words}"
        self.log.append(line)
        print(line, flush=True)

    def trouble(self) -> None:
        """Jobs arrive and things go wrong."""
        span = max(self._seconds - WIND_DOWN - (time.time() - self._began), 20.0)
        start, planned = time.time(), self.planned_troubles(span, EVERY)
        while time.time() < start + span:
            self.trouble_once(planned, time.time() - start, self.jobs_of)

    def planned_troubles(self, span: float, every: float) -> list[tuple[float, str]]:
        """Return and print the troubles that come by themselves within `span` seconds, one in `every`; the last one first."""
        planned = self.troubles.plan(span, every)
        for moment, name in planned:
            print(f"  at {moment:6.1f} s: {name}")
        return planned[::-1]

    def trouble_once(self, planned: list[tuple[float, str]], passed: float, jobs: Jobs) -> None:
        """What is due after `passed` seconds: a round of jobs, troubles, remedies."""
        self.scene_is_whole()
        self.submit_a_round(jobs)
        while planned and planned[-1][0] <= passed:
            self.troubles.strike(planned.pop()[1])
        self.troubles.look_at_gate(is_calm(passed))
        self.troubles.remedy_what_is_due()
        time.sleep(0.02)

    def submit_a_round(self, jobs: Jobs) -> bool:
        """Where the last one is over and the queue is short enough; whether it did."""
        if time.time() < self._next_round or not self.scene.all_submitted():
            return False
        self._next_round = time.time() + ROUND_POLL_S
        if self._waiting() > self.backlog:
            return False
        self._round += 1
        self.scene.submit_all(list(jobs(self.scene, self._dice, self._round, time.time())))
        self._next_round = time.time() + ROUND - ROUND_POLL_S
        return True

    def _waiting(self) -> float:
        try:
            return len(self.scene.queue())
        except (TiresiasError, subprocess.TimeoutExpired):  # Slurm is away
            return math.inf

    def scene_is_whole(self) -> None:
        if self.scene.exit_code is not None or not self.scene.cluster.alive():
            raise TiresiasError(f"the cluster or the controller's keeper is gone; logs: {self.scene.cluster.log}")

    def wind_down(self) -> list[str]:
        """All trouble is over; what is left in the queue when the jobs had their time."""
        self.troubles.remedy_what_is_due(all_of_it=True)
        (self.scene.trouble / "peace").touch()
        self.report("waiting for the jobs")
        self.troubles.nodes_register_later()
        seen, deadline, end = "", time.time() + STUCK, time.time() + LONGEST_END
        while time.time() < min(deadline, end):
            self.scene_is_whole()
            try:
                self.troubles.remedy_what_is_due()
                self.troubles.resume_nodes()
                self.troubles.remove_recovered_reservations()
                self.troubles.release_all_holds()
                self.troubles.widen_what_was_narrowed()
                queue, own = self.scene.queue(), self.scene.status().get("jobs")
                if self.scene.all_submitted() and not queue and not own:
                    return []
                if str(queue) != seen:
                    seen, deadline = str(queue), time.time() + STUCK
            except (TiresiasError, subprocess.TimeoutExpired) as error:
                self.report(f"{error}")
            time.sleep(0.5)
        return [f"{one} {self._explained(one['id'])}" for one in self.scene.queue()]

    def _explained(self, job: str) -> str:
        return " ".join(self.scene.command("explain", job).stdout.split())

    def held(self) -> list[str]:
        """What stays held when the controller has stopped as an admin would stop it."""
        self.scene.stop()
        return [str(one) for one in self.scene.queue() if one["reason"] == "JobHeldAdmin"]

    def check(self) -> dict[str, Any]:
        unfinished = self.wind_down()
        self.sampler.stop()
        self.troubles.blind += controller_outages(self.scene.deaths(), self.sampler.samples)
        check = Check(
            self.scene, self.troubles, self.sampler, unfinished, self.held(), self.config["preemption"]["deadline"]
        )
        self.check_more(check)
        for name in check.broken:
            self.report(f"BROKEN: {name}")
            for what in check.evidence[name][:5]:
                print(f"    {what}")
                for line in story(self.scene, _marks(self.scene, what)):
                    print(f"        {line}")
        if check.broken:
            self.keep_evidence()
        return {
            "seed": self._seed,
            "seconds": round(time.time() - self._began, 1),
            "slurm": self.scene.cluster.slurm_version,
            **check.volume(),
            **check.judged,
            "troubles": dict(sorted(self.troubles.counts.items())),
            "controller_lives": sum("life" in one for one in self.scene.deaths()),
            "invariants": check.counts,
            "broken": check.broken,
            "evidence": {name: check.evidence[name] for name in check.broken},
        }

    def check_more(self, check: Check) -> None:
        """Check what this campaign alone has."""

    def keep_evidence(self) -> None:
        """Copy the logs, the journal and the results of the jobs to a folder that stays."""
        kept = Path(tempfile.mkdtemp(prefix="chaos-"))
        shutil.copytree(self.scene.cluster.log, kept / "logs")
        shutil.copytree(self.scene.folder, kept / "jobs")
        self.report(f"logs, journal, results of the jobs: {kept}")


def _marks(scene: Scene, what: str) -> list[str]:
    """The words by which the logs name this job."""
    submitted = scene.submitted()
    name = next((word for word in what.replace("'", " ").replace(",", " ").split() if word.startswith("chaos-")), what)
    entry = submitted.get(name.partition("_")[0])
    return [f"job {entry.id}:", f"JobId={entry.id} ", f"JobId={entry.id}_"] if entry else [name]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, minutes=10.0)
    args = parser.parse_args(argv)
    print(f"chaos: seed {args.seed}, {args.minutes:g} minutes", flush=True)
    return carry_out(ChaosRun(args, f"chaos-{os.getpid()}", {"gate": GATE}), args)


def add_options(parser: argparse.ArgumentParser, minutes: float) -> None:
    parser.add_argument("--minutes", type=float, default=minutes, help="of trouble, at most (default: %(default)s)")
    parser.add_argument("--policy", default="las", choices=("las", "adaptive"), help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--suite", default="forky", choices=tuple(SUITES), help="of Debian, hence the Slurm version")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")


def carry_out(run: ChaosRun, args: argparse.Namespace, more: Callable[[], dict[str, Any]] = dict) -> int:
    """more: further results, asked for while the cluster is still up. The exit code: 1 when something is broken."""
    try:
        run.scene.begin_lives()
        run.sampler.start()
        run.trouble()
        found: dict[str, Any] = {**run.check(), **more()}
    except TiresiasError:  # Slurm itself does not answer
        run.keep_evidence()
        raise
    finally:
        if not args.keep:
            run.scene.close()
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "evidence"}, indent=1))
    return 1 if found["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
