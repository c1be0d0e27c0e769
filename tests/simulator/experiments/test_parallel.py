"""Processes side by side: results, errors, deaths, Ctrl-C, and a parent that goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiresias.errors import TiresiasError, UsageError
from tiresias.simulator.experiments.parallel import ReportProgress, run_all

Task = Callable[[ReportProgress], object]


def fail(error: BaseException) -> Task:
    def task(report: ReportProgress) -> None:
        raise error

    return task


def die(report: ReportProgress) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(report: ReportProgress) -> None:
    time.sleep(60)


def test_results_in_the_order_of_the_tasks_and_progress() -> None:
    reported = []
    tasks = {str(number): lambda report, number=number: (report(number), number**2)[1] for number in range(5)}
    results = run_all(tasks, lambda name, done: reported.append((name, done)))
    assert list(results.items()) == [(str(number), number**2) for number in range(5)]
    assert sorted(reported) == [(str(number), number) for number in range(5)]


@pytest.mark.parametrize(
    ("task", "output"),
    [
        (fail(UsageError("wrong knob")), "wrong knob"),
        (fail(MemoryError()), "bad: not enough memory"),
        (die, "bad: the process was killed; was there too little memory?"),
        (lambda report: os._exit(7), "bad: the process ended with exit code 7"),
    ],
)
def test_one_that_fails_ends_all(task: Task, output: str) -> None:
    began = time.monotonic()
    with pytest.raises(TiresiasError) as error:
        run_all({"good": sleep, "bad": task} if len(os.sched_getaffinity(0)) > 1 else {"bad": task})
    assert output in str(error.value)
    assert time.monotonic() - began < 30


PROGRAM = """
import sys, time
from tiresias.simulator.experiments.parallel import ReportProgress, run_all

def task(report):
    while True:
        report(1)
        time.sleep(0.05)

def reported(name, done):
    print(name, flush=True)

try:
    run_all({"a": task}, reported)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    yield process
    process.kill()
    process.communicate()


def group(leader: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[2]) == leader:
            found.append(stat.parent.name)
    return found


def wait_until_group_is_empty(leader: int) -> None:
    deadline = time.monotonic() + 20
    while left := group(leader):
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.05)


def test_ctrl_c_ends_all_without_a_traceback(program: subprocess.Popen[str]) -> None:
    os.killpg(program.pid, signal.SIGINT)
    _, output = program.communicate(timeout=20)
    assert (program.returncode, output) == (130, "")
    wait_until_group_is_empty(program.pid)


def test_children_of_a_killed_parent_end(program: subprocess.Popen[str]) -> None:
    assert len(group(program.pid)) == 2
    os.kill(program.pid, signal.SIGKILL)
    wait_until_group_is_empty(program.pid)
