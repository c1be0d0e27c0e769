"""A signal at every moment of a run has one defined end: the step is finished, saved and left with 99, or the run ends as ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiresias.checkpoint import EXIT_REQUEUE, Store

PROGRAM = Path(__file__).with_name("signal_program.py")
SIGNALS = [signal.SIGTERM, signal.SIGUSR2]


class Run:
    """The program, moment by moment."""

    def __init__(self, folder: Path, steps: int) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TIRESIAS_"))}
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), str(steps)],
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def reach(self, words: str) -> None:
        """Go on to that moment, and stay in it."""
        assert self.process.stdout
        while (line := self.process.stdout.readline().rstrip("\n")) != words:
            assert line, self.process.communicate()
            self.go_on()

    def go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        self.process.communicate("\n" * 100, timeout=60)
        return self.process.returncode


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    made: list[Run] = []

    def start(steps: int = 5) -> Run:
        made.append(Run(tmp_path / "job", steps))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.communicate()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "job")


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(("moment", "step"), [("made", 1), ("step 1", 1), ("step 3", 3), ("step 5", 5)])
def test_before_and_in_a_step(run: Callable[..., Run], store: Store, number: int, moment: str, step: int) -> None:
    """Before the first step too: one step is trained and saved."""
    program = run()
    program.reach(moment)
    program.process.send_signal(number)
    assert program.end() == EXIT_REQUEUE
    assert store.steps() == [step]


@pytest.mark.parametrize("number", SIGNALS)
def test_after_the_last_step(run: Callable[..., Run], store: Store, number: int) -> None:
    """The program is done: it ends as ever."""
    program = run()
    program.reach("done")
    program.process.send_signal(number)
    assert program.end() == 0
    assert store.steps() == []


@pytest.mark.parametrize("moment", ["saving", "saved"])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_while_saving(run: Callable[..., Run], store: Store, number: int, moment: str) -> None:
    """Slurm's own, when the requeue comes early: the save comes to its end."""
    program = run()
    program.reach("step 2")
    program.process.send_signal(signal.SIGUSR2)
    program.go_on()
    program.reach(moment)
    for _ in range(3):
        program.process.send_signal(number)
    assert program.end() == EXIT_REQUEUE
    assert store.steps() == [2]
    assert store.verify(2)


def test_a_save_that_is_killed_is_as_if_it_never_began(run: Callable[..., Run], store: Store) -> None:
    store.save(1, {"text": b"000001"})
    program = run()
    program.reach("step 3")
    program.process.send_signal(signal.SIGUSR2)
    program.go_on()
    program.reach("saving")
    program.process.kill()
    assert program.end() == -signal.SIGKILL
    assert store.steps() == [1]
    again = run()
    again.reach("step 2")


@pytest.mark.parametrize("number", SIGNALS)
def test_while_restoring(run: Callable[..., Run], store: Store, number: int) -> None:
    """It comes to its next step and saves that; the attempt is not held against the checkpoint."""
    store.save(1, {"text": b"000001"})
    for step in (2, 3, 4):
        program = run()
        program.reach("restoring")
        program.process.send_signal(number)
        assert program.end() == EXIT_REQUEUE
        assert store.steps()[0] == step
    assert store.set_aside() == []


def test_killed_twice_while_restoring(run: Callable[..., Run], store: Store) -> None:
    """Perhaps it is the checkpoint that kills: the third run takes the one before."""
    store.save(1, {"text": b"000001"})
    store.save(2, {"text": b"000002"})
    for _ in range(2):
        program = run()
        program.reach("restoring")
        program.process.kill()
        program.end()
    program = run()
    program.reach("step 2")
    assert store.steps() == [1]
    assert store.set_aside() == ["failed-step-2"]
