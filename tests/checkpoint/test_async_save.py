"""Asynchronous saves: the state at the call is saved, and failures are raised."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import Checkpointer, SaveFailed, Store
from tiresias.checkpoint.snapshot import HUGE, Snapshots
from tiresias.checkpoint.world import World


@pytest.fixture
def checkpointer(tmp_path: Path) -> Iterator[Checkpointer]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    yield Checkpointer(tmp_path / "job", world=World())
    for number, handler in before.items():
        signal.signal(number, handler)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Gate:
    """Holds the store's saves back until it is opened."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.saved = threading.Event(), list[int]()
        real = store.save

        def save(step: int, state: Any, world: World) -> Path:
            assert self.opened.wait(30)
            self.saved.append(step)
            return real(step, state, world)

        monkeypatch.setattr(store, "save", save)


def test_what_is_saved_is_what_was_there(checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(checkpointer.store, monkeypatch)
    small, large, values = bytearray(b"abc"), bytearray(b"x" * (HUGE + 5)), {"loss": [1, 2]}
    stream = bytearray(b"12")
    checkpointer.save(
        1, {"small": small, "large": large, "values": values, "stream": iter([stream, stream]), "none": b""}, wait=False
    )
    small[:], large[:], stream[:], values["loss"][:] = b"ABC", b"y" * len(large), b"34", [3]
    gate.opened.set()
    checkpointer.flush()
    found = checkpointer.restore()
    assert found is not None
    assert dict(found.state) == {
        "small": b"abc",
        "large": b"x" * (HUGE + 5),
        "values": {"loss": [1, 2]},
        "stream": b"1212",
        "none": b"",
    }


def test_one_is_written_and_one_waits(checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(checkpointer.store, monkeypatch)
    for step in (1, 2):
        checkpointer.save(step, {}, wait=False)
    third = threading.Thread(target=lambda: checkpointer.save(3, {}, wait=False))
    third.start()
    third.join(0.2)
    assert third.is_alive(), "a third was taken"
    gate.opened.set()
    third.join(30)
    checkpointer.flush()
    assert gate.saved == [1, 2, 3]


def test_a_failure_is_raised_by_the_next_save(checkpointer: Checkpointer) -> None:
    checkpointer.save(9, {})
    checkpointer.save(5, {}, wait=False)
    wait_for(lambda: checkpointer._async_saves._saves[0].done())
    with pytest.raises(SaveFailed, match="step 9, newer than 5"):
        checkpointer.save(10, {}, wait=False)
    checkpointer.save(11, {}, wait=False)
    checkpointer.flush()
    assert checkpointer.store.steps() == [11, 9]


def test_flush_raises_it_too_and_once(checkpointer: Checkpointer) -> None:
    checkpointer.save(9, {})
    checkpointer.save(5, {}, wait=False)
    with pytest.raises(SaveFailed):
        checkpointer.flush()
    checkpointer.flush()


def test_a_save_that_is_waited_for_makes_good_for_it(
    checkpointer: Checkpointer, capfd: pytest.CaptureFixture[str]
) -> None:
    """A job that leaves on request has saved: an older failure is no reason to end it."""
    checkpointer.save(9, {})
    checkpointer.save(5, {}, wait=False)
    checkpointer.save(10, {})
    assert checkpointer.store.steps() == [10, 9]
    assert (
        "newer than 5: call restore() first, or save into another folder; the ones before it are untouched; step 10 is saved"
        in capfd.readouterr().err
    )
    with pytest.raises(SystemExit):
        checkpointer.exit_for_requeue()


def test_leaving_waits(checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(checkpointer.store, monkeypatch)
    checkpointer.save(1, {}, wait=False)
    threading.Timer(0.2, gate.opened.set).start()
    with pytest.raises(SystemExit):
        checkpointer.exit_for_requeue()
    assert checkpointer.store.steps() == [1]


END = """
import sys
from tiresias.checkpoint import Checkpointer
Checkpointer(sys.argv[1]).save(1, {"x": bytes(50 << 20)}, wait=False)
"""


def test_the_programs_end_waits(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", END, str(tmp_path)], check=True, timeout=60, env={**os.environ, "TIRESIAS_CONTROL": ""}
    )
    assert Store(tmp_path).verify(1).size > 50 << 20


def test_memory_is_used_again_and_let_go_when_sizes_change() -> None:
    snapshots = Snapshots()
    first = snapshots.take({"x": b"a" * HUGE, "y": b"b" * HUGE})
    second = snapshots.take({"x": b"c" * HUGE})
    assert first["x"] is not second["x"]
    snapshots.release(first)
    third = snapshots.take({"x": b"d" * HUGE})
    assert third["x"] in (first["x"], first["y"])
    assert bytes(third["x"]) == b"d" * HUGE
    snapshots.release({"x": snapshots.take({"x": b"e" * (HUGE + 1)})["x"]})
    assert set(snapshots._free) == {HUGE + 1}
