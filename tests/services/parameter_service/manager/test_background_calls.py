"""Calls in a thread beside a loop: each result comes back to the loop's thread; a command of Slurm can be ended."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.parameter_service.conftest import until
from tiresias.errors import TiresiasError, Unavailable
from tiresias.services.parameter_service.manager.background_calls import BackgroundCalls, CallSequence
from tiresias.services.parameter_service.manager.fleet_commands import FleetCommands


class Loop:
    """Runs what other threads hand to it."""

    def __init__(self) -> None:
        self.work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.work.get(timeout=20)()


def fails() -> None:
    raise Unavailable("no answer")


def test_results_and_errors_come_back_to_the_loop() -> None:
    loop, found, ended = Loop(), list[object](), list[TiresiasError | None]()
    background = BackgroundCalls("test", loop.work.put)

    def sequence(last: Callable[[], object]) -> CallSequence:
        found.append((yield threading.get_ident))
        try:
            yield fails
        except Unavailable as error:
            found.append(str(error))
        found.append(threading.get_ident())
        yield last

    background.begin(sequence(lambda: None), ended.append)
    loop.until(lambda: not background.busy)
    here = threading.get_ident()
    assert (found[0] != here, found[1:], ended) == (True, ["no answer", here], [None])
    background.begin(sequence(fails), ended.append)
    loop.until(lambda: not background.busy)
    assert str(ended[-1]) == "no answer"


def test_the_end_takes_over_the_result_of_the_call_in_progress() -> None:
    go, found = threading.Event(), list[object]()
    background = BackgroundCalls("test", lambda work: None)

    def sequence() -> CallSequence:
        found.append((yield lambda: go.wait(20)))
        yield lambda: found.append("one call too many")

    background.begin(sequence())
    go.set()
    background.finish(wait_s=20)
    assert (found, background.busy) == ([True], False)


def test_a_defect_in_a_call_ends_the_loop() -> None:
    loop = Loop()
    background = BackgroundCalls("test", loop.work.put)

    def sequence() -> CallSequence:
        yield lambda: 1 // 0

    background.begin(sequence())
    with pytest.raises(ZeroDivisionError):
        loop.until(lambda: False)


def test_a_command_is_ended_with_its_children(tmp_path: Path) -> None:
    script, begun = tmp_path / "sbatch", tmp_path / "begun"
    script.write_text(f"#!/bin/sh\ntouch {begun}\ntail -f /dev/null\n")
    script.chmod(0o755)
    commands, found = FleetCommands(), list[str]()

    def run() -> None:
        with pytest.raises(Unavailable) as caught:
            commands.run(str(script))
        found.append(str(caught.value))

    thread = threading.Thread(target=run)
    thread.start()
    until(begun.exists, "the command begins")
    commands.interrupt()
    thread.join(20)
    assert found == [f"{script}: exit status -9"]
    commands.interrupt()
    assert commands.run("echo", "next") == "next"
