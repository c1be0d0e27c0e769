"""The kill campaign: the controller kills itself (SIGKILL) at its journaled steps, all equally often, while jobs come and go.

    python tests/chaos/kills.py [--kills 1000] [--slurmctld-restarts 100] [--seed N] [--minutes 60] [--json FILE]

A point is the moment before or after a step is journaled (lives.py); each life ends at the next point that has not had its
share, at random, so that lives make progress. Points that are rare (a job that cannot save, one that Slurm does not start, one near
its time limit) come as often as the jobs of this campaign make them. Ends when the kills are done, or at --minutes; what is
checked then: checks.py.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.kills", *sys.argv[1:]])

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterator

from tests.chaos.run import ChaosRun, add_options, carry_out
from tests.chaos.scene import Job, Scene
from tests.chaos.workload import TRAIN

CHANCE = 0.25  # with which a life ends at a point that has not had its share
POINTS = 44  # about as many as there are


class KillCampaign(ChaosRun):
    def __init__(self, args: argparse.Namespace) -> None:
        self._kills, self._restarts = args.kills, args.slurmctld_restarts
        share = -(-args.kills // POINTS)
        plan = {"seed": args.seed, "chance": CHANCE, "quota": share * 4}
        super().__init__(args, name=f"kills-{os.getpid()}", plan=plan)

    @property
    def kills(self) -> Counter[str]:
        return Counter(one["point"] for one in self.scene.deaths() if "point" in one)

    def trouble(self) -> None:
        """Jobs arrive, controllers kill themselves, and slurmctld is restarted now and then."""
        restarted, end = 0, time.time() + self._seconds
        while time.time() < end and (done := self.kills.total()) < self._kills:
            self.scene_is_whole()
            if self.submit_a_round(jobs):
                self.report(f"{done} kills, {restarted} restarts of slurmctld, {len(self.scene.submitted())} jobs")
            if restarted < self._restarts * done / self._kills:
                restarted += 1
                self.troubles.strike("restart_slurmctld")
            self.troubles.remedy_what_is_due()
            time.sleep(0.2)


def jobs(scene: Scene, dice: random.Random, number: int, start: float) -> Iterator[Job]:
    """A round: large ones that every other job preempts, small ones, and some of each kind that leads to a rare step."""
    for place in range(2):
        yield Job(
            f"chaos-{number}-large{place}", "alice", scene.trainer(f"chaos-{number}-large{place}", 8, 60.0), start
        )
    yield _near_its_limit(scene, f"chaos-{number}-limit", start)  # at random hardly any run lasts so long
    moment = 0.0
    for place in range(30):
        moment += dice.uniform(1, 3)
        yield _small(scene, dice, f"chaos-{number}-{place}", start + moment)


def _small(scene: Scene, dice: random.Random, name: str, at: float) -> Job:
    gpus, seconds, kind = dice.choice([4, 8, 16]), round(dice.uniform(0.5, 2), 1), dice.random()
    if kind < 0.8:
        return Job(name, "bob", scene.trainer(name, gpus, seconds), at, plain=gpus)
    if kind < 0.9:  # is not started: its licence is taken
        return Job(name, "bob", scene.trainer(name, 1, 4.0, "--licenses=scarce"), at)
    if kind < 0.95:  # cannot save
        words = ["tsbatch", *scene.options(name, 8), "--wrap", f"exec python3 {TRAIN} 8 ignores"]
        return Job(name, "bob", words, at, trains=False)
    return _near_its_limit(scene, name, at)


def _near_its_limit(scene: Scene, name: str, at: float) -> Job:
    """It saves before that. A job that was preempted max_preemptions times is left alone, and comes to its limit at last."""
    return Job(name, "bob", scene.trainer(name, 1, 70.0, "--time=1"), at)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--slurmctld-restarts", type=int, default=100)
    add_options(parser, minutes=60.0)
    args = parser.parse_args(argv)
    print(f"kills: seed {args.seed}, {args.kills} kills", flush=True)
    run = KillCampaign(args)
    return carry_out(run, args, lambda: {"kills": run.kills.total(), "kills_at": dict(sorted(run.kills.items()))})


if __name__ == "__main__":
    sys.exit(main())
