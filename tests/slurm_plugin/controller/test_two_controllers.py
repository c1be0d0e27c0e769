"""Two controllers that compete for one cluster, on a real Slurm with real jobs: nothing is lost, nothing runs twice."""

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

from tests.slurm_plugin.controller import replay_checks
from tiresias.errors import TiresiasError
from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.setup import FOLDER, Options, controller_config
from tiresias.simulator.trace import TraceJob
from tiresias.slurm_plugin.sockets.control_client import ask

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
UNFENCED = (
    "python3",
    "/opt/tiresias/tests/slurm_plugin/controller/unfenced_controller.py",
)  # the checkout, as the cluster sees it
REGULAR = ("tiresias", "controller", "--config")
OPTIONS = Options(time_scale=30.0, nodes=4, suite="forky", thresholds=(600.0,))
SEED = 7


# on all 16 GPUs, so that each short job preempts it; 30 seconds take one real second
LONG = TraceJob(job_id="0", submit_time=0.0, num_gpus=16, duration=300.0, model="resnet50")


def submit_when_alone(replay: Replay, number: int) -> bool:
    """Submit a short job once the long one runs alone; return whether the long one had not finished by then."""
    until(lambda: is_alone(replay, number - 1) or replay.over(), "the long job does not run alone")
    if not is_alone(replay, number - 1):
        return False
    replay.add([TraceJob(job_id=str(number), submit_time=0.0, num_gpus=8, duration=30.0, model="googlenet")])
    return True


def is_alone(replay: Replay, shorts: int) -> bool:
    """Return whether the long job runs, and all short ones have finished."""
    progress = replay.progress()
    return (progress.running, progress.finished) == (1, shorts)


class TwoControllers:
    """Controllers 0 and 1 with one state folder and separate run folders."""

    def __init__(self, replay: Replay, program: tuple[str, ...]) -> None:
        self.replay, self.program = replay, program
        self.processes: list[subprocess.Popen[Any]] = [self.start(number) for number in range(2)]

    def start(self, number: int) -> subprocess.Popen[Any]:
        config = controller_config("las", OPTIONS).replace('"/run/tiresias"', f'"/run/tiresias/{number}"')
        (self.replay.folder / f"{number}.toml").write_text(config)
        with self.log(number).open("ab") as log:
            return self.replay.cluster.popen(
                [*self.program, f"{FOLDER}/{number}.toml"],
                user=self.replay.cluster.spec.daemon_user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def log(self, number: int) -> Path:
        return self.replay.folder / "logs" / f"controller-{number}"

    def count_in_logs(self, words: str) -> int:
        return sum(self.log(number).read_text(errors="replace").count(words) for number in range(2))

    def status(self, number: int) -> dict[str, Any]:
        """Return the status of a controller; {} if it is a standby or frozen."""
        socket = Path(f"/proc/{self.replay.cluster.init.pid}/root/run/tiresias/{number}/control.sock")
        with contextlib.suppress(TiresiasError):
            return ask(socket, {"op": "status"}, timeout=2.0)
        return {}

    def leads(self, number: int) -> bool:
        return bool(self.status(number))

    def jobs(self) -> list[Any]:
        """Return the jobs in the leader's status."""
        return next((list(found["jobs"]) for one in range(2) if (found := self.status(one))), [])

    def leader(self) -> int:
        return until(lambda: next((f"{one}" for one in range(2) if self.leads(one)), ""), "no controller leads")

    def send(self, number: int, name: str) -> None:
        """Send a signal to the program, and SIGCONT also to nsenter, which stops with it."""
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
def competing(program: tuple[str, ...]) -> Iterator[tuple[Replay, TwoControllers]]:
    """Begin with the long job under two controllers; wait until all jobs have ended, then check that nothing is lost."""
    with Replay("las", [LONG], OPTIONS) as replay:
        replay.stop_controller()
        replay._controller = None
        two = TwoControllers(replay, program)
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
        replay_checks.check(replay)


def test_two_controllers_that_both_act_as_leader_do_no_harm() -> None:
    with competing(UNFENCED) as (replay, two):
        submitted = list(itertools.takewhile(lambda number: submit_when_alone(replay, number), range(1, 9)))
        assert len(submitted) > 2, "the long job was hardly preempted"
        until(replay.over, "the jobs do not end", 180.0)
        assert two.count_in_logs("leading, in epoch") > 5, "the lead has hardly changed"


@pytest.mark.long  # test_controller_standby.py freezes a leader once
def test_a_leader_frozen_in_the_middle_of_a_transition_does_no_harm() -> None:
    dice = random.Random(SEED)
    with competing(REGULAR) as (replay, two):
        for _ in itertools.takewhile(lambda number: submit_when_alone(replay, number), range(1, 7)):
            leader = two.leader()
            until(lambda: any(job["phase"] for job in two.jobs()) or replay.over(), "there is no transition")
            time.sleep(dice.uniform(0.0, 0.5))  # the step at which it is frozen
            two.send(leader, "STOP")
            until(lambda other=1 - leader: two.leads(other), "the other controller does not take over")
            time.sleep(dice.uniform(0.0, 0.5))  # how long both act
            two.send(leader, "CONT")
        assert two.count_in_logs("; this controller is a standby now") >= 3, "there were too few takeovers"
