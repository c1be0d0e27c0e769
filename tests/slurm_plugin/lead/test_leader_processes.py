"""The lead between real processes that are killed, stopped or hang."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiresias.durable.leadership import Leadership

LEAD = """
import sys, time
from pathlib import Path
from tiresias.durable.leadership import Leadership, Superseded
one = Leadership(Path(sys.argv[1]), float(sys.argv[2]))
while not one.take():
    one.announce_standby()
    print("waits", flush=True)
    time.sleep(one.pause)
print("leads", one.epoch, flush=True)
try:
    if sys.argv[3] == "hangs":
        one.renew(grace=0.0)
        time.sleep(5 * one.seconds)
    while True:
        one.renew()
        time.sleep(0.02)
except Superseded as error:
    print("superseded", flush=True)
"""
SECONDS = 1.0


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def new(habit: str = "well", seconds: float = SECONDS) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", LEAD, str(tmp_path / "leader"), str(seconds), habit]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield new
    for one in started:
        one.kill()
        one.wait()


def wait_for_line(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout
    for line in process.stdout:
        if line.startswith(word):
            return line
    raise AssertionError(f"it ended without a word of {word}")


def test_a_killed_leader_is_followed_long_before_its_lease_ends(start: Start) -> None:
    leader = start(seconds=600.0)
    wait_for_line(leader, "leads 1")
    standby = start(seconds=600.0)
    wait_for_line(standby, "waits")
    leader.kill()
    wait_for_line(standby, "leads 2")  # the kernel unlocked its file; the pytest timeout bounds this


def test_a_stopped_leader_is_followed_and_finds_out_when_it_goes_on(start: Start) -> None:
    leader = start()
    wait_for_line(leader, "leads 1")
    standby = start()
    wait_for_line(standby, "waits")
    leader.send_signal(signal.SIGSTOP)
    wait_for_line(standby, "leads 2")
    leader.send_signal(signal.SIGCONT)
    wait_for_line(leader, "superseded")
    assert standby.poll() is None


def test_a_leader_that_is_well_is_not_followed(start: Start) -> None:
    leader = start()
    wait_for_line(leader, "leads 1")
    standby = start()
    end = time.monotonic() + 3 * SECONDS
    while time.monotonic() < end:
        wait_for_line(standby, "waits")


def test_a_leader_whose_cycle_hangs_loses_the_lead_though_its_thread_lives(start: Start) -> None:
    leader = start("hangs")
    wait_for_line(leader, "leads 1")
    standby = start()
    wait_for_line(standby, "leads 2")
    wait_for_line(leader, "superseded")


def test_the_leader_detects_a_standby(start: Start, tmp_path: Path) -> None:
    leader = Leadership(tmp_path / "leader", SECONDS)
    assert leader.take()
    assert not leader.has_standby()
    standby = start()
    wait_for_line(standby, "waits")
    assert leader.has_standby()
    standby.kill()
    end = time.monotonic() + 10 * SECONDS
    while leader.has_standby():
        assert time.monotonic() < end
        time.sleep(0.05)
    leader.step_down()


def beats(folder: Path, seconds: float) -> int:
    """In so many seconds."""
    watcher = Leadership(folder, 1.0)
    before = watcher.lease().beat
    time.sleep(seconds)
    return watcher.lease().beat - before


def test_a_leader_that_is_retimed_never_beats_less_often(tmp_path: Path) -> None:
    leader = Leadership(tmp_path / "leader", 3600.0)
    assert leader.take()
    leader.retime(0.5)
    assert beats(leader.folder, 1.0) >= 5
    leader.retime(3600.0)
    assert leader.seconds == 3600.0
    assert beats(leader.folder, 1.0) >= 5, (
        "a standby that waits for half a second of silence may not have been retimed yet"
    )
    leader.step_down()
