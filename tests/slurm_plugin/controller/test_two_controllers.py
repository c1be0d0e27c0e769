"""Two controllers that fight for one cluster, on a real Slurm with real jobs: nothing is lost, nothing runs twice."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slurm_plugin.controller import books
from tiresias.errors import TiresiasError
from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.setup import FOLDER, Options, controller_config
from tiresias.simulator.trace import TraceJob
from tiresias.slurm_plugin.sockets.control_socket import ask

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
BLIND = ("python3", "/opt/tiresias/tests/slurm_plugin/controller/blind.py")  # the checkout, as the cluster sees it
SOUND = ("tiresias", "controller", "--config")
OPTIONS = Options(time_scale=30.0, nodes=4, suite="forky", thresholds=(600.0,))
SEED = 7


def jobs(shorts: int, gap: float) -> list[TraceJob]:
    """A long job on all 16 GPUs, which every one of the short ones has to preempt, `gap` seconds apart. 30 to a real one."""
    long = TraceJob(job_id="0", submit_time=0.0, num_gpus=16, duration=300.0, model="resnet50")
    short = [
        TraceJob(job_id=str(number), submit_time=gap * number, num_gpus=8, duration=30.0, model="googlenet")
        for number in range(1, shorts + 1)
    ]
    return [long, *short]


class Two:
    """Controllers 0 and 1 with one state folder, each in a run folder of its own."""

    def __init__(self, replay: Replay, program: tuple[str, ...]) -> None:
        self.replay, self.program = replay, program
        self.processes: list[subprocess.Popen[Any]] = [self.start(number) for number in range(2)]

    def start(self, number: int) -> subprocess.Popen[Any]:
        config = controller_config("las", OPTIONS).replace('"/run/tiresias"', f'"/run/tiresias/{number}"')
        (self.replay.folder / f"{number}.toml").write_text(config)
        with self.log(number).open("ab") as log:
            return self.replay.cluster.popen(
                [*self.program, f"{FOLDER}/{number}.toml"], user=self.replay.cluster.spec.daemon_user,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def log(self, number: int) -> Path:
        return self.replay.folder / "logs" / f"controller-{number}"

    def said(self, words: str) -> int:
        return sum(self.log(number).read_text(errors="replace").count(words) for number in range(2))

    def status(self, number: int) -> dict[str, Any]:
        """{} of who stands by, or is frozen."""
        socket = Path(f"/proc/{self.replay.cluster.init.pid}/root/run/tiresias/{number}/control.sock")
        with contextlib.suppress(TiresiasError):
            return ask(socket, {"op": "status"}, timeout=2.0)
        return {}

    def leads(self, number: int) -> bool:
        return bool(self.status(number))

    def jobs(self) -> list[Any]:
        """As the leader sees them."""
        return next((list(found["jobs"]) for one in range(2) if (found := self.status(one))), [])

    def leader(self) -> int:
        return until(lambda: next((f"{one}" for one in range(2) if self.leads(one)), ""), "nobody leads")

    def send(self, number: int, name: str) -> None:
        """To the program, and to nsenter, which stops with it."""
        process = self.processes[number]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in [*map(int, children), *([process.pid] if name == "CONT" else [])]:
            os.kill(pid, signal.Signals[f"SIG{name}"])

    def end(self) -> None:
        for number, process in enumerate(self.processes):
            if process.poll() is None:
                self.send(number, "CONT")
                self.send(number, "TERM")
        for process in self.processes:
            process.wait(60)


def until(found: Any, words: str, seconds: float = 60.0) -> int:
    end = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < end, words
        time.sleep(0.02)
    return int(answer)


@contextlib.contextmanager
def fighting(program: tuple[str, ...], trace: list[TraceJob]) -> Iterator[tuple[Replay, Two]]:
    """Until all jobs have ended; then nothing may be missing."""
    with Replay("las", trace, OPTIONS) as replay:
        replay.stop_controller()
        replay._controller = None
        two = Two(replay, program)
        try:
            two.leader()
            replay.begin(time.time())
            yield replay, two
            end = time.monotonic() + 180
            while not replay.over():
                assert time.monotonic() < end, replay.cluster.run(["squeue", "-o", "%i %T %r %Q %N"]).stdout
                time.sleep(0.2)
            replay.settle()
            until(lambda: two.leader() in (0, 1) and not two.jobs(), "the leader does not see the end of all jobs")
        except AssertionError as error:
            logs = [two.log(number).read_text(errors="replace").splitlines()[-20:] for number in range(2)]
            raise AssertionError("\n".join([str(error), *logs[0], *logs[1]])) from error
        finally:
            two.end()
        books.check(replay)


def test_two_that_both_believe_they_lead_do_no_harm() -> None:
    with fighting(BLIND, jobs(8, gap=75.0)) as (replay, two):
        while not replay.over():
            time.sleep(0.5)
        assert two.said("leading, in epoch") > 10, "they did not fight"


def test_a_leader_that_is_frozen_in_the_middle_of_a_move_and_thaws_does_no_harm() -> None:
    dice = random.Random(SEED)
    with fighting(SOUND, jobs(10, gap=150.0)) as (replay, two):
        for _ in itertools.takewhile(lambda _: not replay.over(), range(6)):
            leader = two.leader()
            until(lambda: any(job["phase"] for job in two.jobs()) or replay.over(), "nothing moves")
            time.sleep(dice.uniform(0.0, 0.5))
            two.send(leader, "STOP")
            until(lambda other=1 - leader: two.leads(other), "nobody takes over")
            time.sleep(dice.uniform(0.0, 0.5))
            two.send(leader, "CONT")
        assert two.said("; standing by") >= 3, "too few takeovers to tell"
