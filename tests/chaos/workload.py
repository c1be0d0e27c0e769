"""The jobs of a chaos run: trainings that are checked to the last step, and everything else that users of a cluster submit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.chaos.scene import USERS, Job, Scene

ARRIVAL = 2.5  # seconds between jobs
ROUND = 60.0  # seconds of arrivals that are planned at once
TESTS = "/opt/tiresias/tests/slurm_plugin/controller"
TRAIN, LIAR = f"{TESTS}/train.py", f"{TESTS}/liar.py"
LIES = ("/shared/tiresias/control", '{"state": "parked"}', '{"ready": true, "save": 0.1}')


@dataclass(frozen=True, slots=True)
class Draft:
    """What all kinds of jobs have."""

    scene: Scene
    dice: random.Random
    name: str
    user: str
    gpus: int
    seconds: float
    at: float

    def training(self, gpus: int, *options: str, seconds: float = 0.0, tasks: int = 1, plain: int = 0) -> Job:
        command = self.scene.trainer(self.name, gpus, seconds or self.seconds, *options)
        return Job(self.name, self.user, command, self.at, tasks=tasks, plain=plain)

    def other(self, by: str, *words: str, foreign: bool = False) -> Job:
        return Job(self.name, self.user, [by, *words], self.at, trains=False, foreign=foreign)


def plain(one: Draft) -> Job:
    return one.training(one.gpus, plain=one.gpus)


def array(one: Draft) -> Job:
    return one.training(1, "--array=0-2", tasks=3)


def throttled_array(one: Draft) -> Job:
    return one.training(2, "--array=0-3%1", tasks=4)


def licensed(one: Draft) -> Job:
    return one.training(1, "--licenses=scarce")


def near_its_limit(one: Draft) -> Job:
    """Saves before that."""
    return one.training(2, "--time=1", seconds=70.0)


def misbehaving(one: Draft) -> Job:
    habit = one.dice.choice(["ignores", "hangs", "slow"])
    command = f"exec python3 {TRAIN} {one.seconds} {habit}"
    return one.other("tsbatch", *one.scene.options(one.name, one.gpus), "--wrap", command)


def liar(one: Draft) -> Job:
    """Reports that it can save and that it has, and does not."""
    lies = " ".join(f"'{lie}'" for lie in LIES)
    command = f"exec timeout {one.seconds} python3 {LIAR} {lies}"
    return one.other("sbatch", *one.scene.options(one.name, one.gpus), "--wrap", command)


def not_checkpointing(one: Draft) -> Job:
    return one.other("sbatch", *one.scene.options(one.name, one.gpus), "--wrap", f"sleep {one.seconds}")


def heterogeneous(one: Draft) -> Job:
    parts = ["--gpus=1", "--ntasks=1", ":", "--gpus=1", "--ntasks=1"]
    return _foreign(one, *parts)


def of_another_partition(one: Draft) -> Job:
    return _foreign(one, "--partition=other", f"--gpus={min(one.gpus, 4)}", "--nodes=1")


def of_two_partitions(one: Draft) -> Job:
    return _foreign(one, "--partition=gpu,other", f"--gpus={min(one.gpus, 4)}", "--nodes=1")


def exclusive(one: Draft) -> Job:
    return _foreign(one, "--exclusive", "--nodes=1")


def _foreign(one: Draft, *options: str) -> Job:
    words = ["--parsable", f"--job-name={one.name}", "--chdir=/tmp", "--output=/dev/null", *options]
    return one.other("sbatch", *words, "--wrap", f"sleep {one.seconds}", foreign=True)


KINDS: dict[Callable[[Draft], Job], int] = {
    plain: 60, array: 5, throttled_array: 3, licensed: 5, near_its_limit: 3, misbehaving: 5, liar: 2, not_checkpointing: 4,
    heterogeneous: 3, of_another_partition: 5, of_two_partitions: 2, exclusive: 2,
}  # fmt: skip


def workload(scene: Scene, dice: random.Random, number: int, start: float) -> Iterator[Job]:
    """The arrivals of a round."""
    moment, place = 0.0, 0
    while (moment := moment + dice.expovariate(1 / ARRIVAL)) < ROUND:
        place += 1
        seconds = round(min(max(dice.expovariate(1 / 3), 0.5), 15.0), 1)
        gpus = dice.choice([1, 1, 2, 2, 4, 4, 8, 16])
        draft = Draft(scene, dice, f"chaos-{number}-{place}", dice.choice(USERS), gpus, seconds, start + moment)
        yield dice.choices(list(KINDS), list(KINDS.values()))[0](draft)
