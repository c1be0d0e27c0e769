"""At most one leads: whatever the order of looks, deaths and pauses, and between real processes that are killed or stopped."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tiresias.errors import Unavailable
from tiresias.slurm_plugin.lead import lease
from tiresias.slurm_plugin.lead.lead_folder import KEPT_EPOCHS
from tiresias.slurm_plugin.lead.leadership import HUNG_SECONDS, Leadership, Superseded

LONG = 1000.0  # so long that no thread beats during a test with a clock of its own


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def leads(one: Leadership) -> bool:
    try:
        one.check()
    except Superseded:
        return False
    return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def two(tmp_path: Path, clock: Clock) -> Iterator[tuple[Leadership, Leadership]]:
    pair = Leadership(tmp_path / "leader", LONG, clock), Leadership(tmp_path / "leader", LONG, clock)
    yield pair
    for one in pair:
        one.step_down()


def test_the_first_one_leads_and_the_second_waits(two: tuple[Leadership, Leadership]) -> None:
    first, second = two
    assert first.take()
    assert not second.take()
    assert leads(first)
    assert not leads(second)
    assert second.lease().epoch == first.epoch == 1


def test_who_stepped_down_is_followed_at_once(two: tuple[Leadership, Leadership]) -> None:
    first, second = two
    assert first.take()
    first.step_down()
    assert second.take()
    assert second.epoch == 2
    with pytest.raises(Superseded):
        first.check()


def test_silence_is_measured_by_the_clock_of_who_waits(two: tuple[Leadership, Leadership], clock: Clock) -> None:
    first, second = two
    assert first.take()
    assert not second.take()
    clock.now += LONG - 1
    assert not second.take()
    first.renew()  # it had been late: this beats
    clock.now += LONG - 1
    assert not second.take()
    clock.now += LONG
    assert second.take()
    with pytest.raises(Superseded, match="epoch 2"):
        first.check()
    with pytest.raises(Superseded):
        first.renew()


def test_a_lease_that_a_sleeper_wrote_over_a_later_one_helps_nobody(
    two: tuple[Leadership, Leadership], clock: Clock
) -> None:
    first, second = two
    assert first.take()
    old = (first.folder / "lease").read_bytes()
    assert second.seize()
    (first.folder / "lease").write_bytes(old)  # it slept between its look and its write
    clock.now += LONG
    with pytest.raises(Superseded):
        first.check()  # late, so that it beats, and looks again
    assert not leads(first)
    assert leads(second)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"epoch": "9"}', "[" * 4000, '{"epoch": 9, "what": 1}', "\xff"]
)
def test_a_damaged_lease_is_waited_for_and_then_replaced(
    two: tuple[Leadership, Leadership], clock: Clock, text: str
) -> None:
    first, second = two
    assert first.take()
    (first.folder / "lease").write_text(text, encoding="latin-1")
    assert not second.take()
    assert leads(first)
    clock.now += LONG
    assert second.take()
    assert second.epoch == 2
    assert not leads(first)


def test_an_epoch_is_above_what_the_journal_has_seen(two: tuple[Leadership, Leadership]) -> None:
    assert two[0].take(above=41)
    assert two[0].epoch == 42


def test_who_began_and_died_is_waited_for(two: tuple[Leadership, Leadership], clock: Clock) -> None:
    first, second = two
    first.folder.mkdir()
    (first.folder / "epoch-1").touch()  # made, and no lease written
    assert not second.take()
    clock.now += LONG
    assert second.take()
    assert second.epoch == 2


def test_old_epochs_are_tidied_away(two: tuple[Leadership, Leadership]) -> None:
    for _ in range(3 * KEPT_EPOCHS):
        assert two[0].take()
        two[0].step_down()
    assert len(list(two[0].folder.iterdir())) <= KEPT_EPOCHS + 3


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    one = Leadership(tmp_path / "file" / "leader", LONG)
    with pytest.raises(Unavailable, match=r"make it writable for this user or set paths\.state"):
        one.take()


class Contest(RuleBasedStateMachine):
    """Three that look, renew, sleep, die and step down in any order. Only who took the lead last may write."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.clock, self.last = Clock(), 0
        self.all = [Leadership(Path(self.scratch.name) / "leader", LONG, self.clock) for _ in range(3)]

    who = st.integers(0, 2)

    @rule(one=who, seize=st.booleans())
    def take(self, one: int, seize: bool) -> None:
        leadership = self.all[one]
        if not leadership.epoch and (leadership.seize() if seize else leadership.take()):
            assert leadership.epoch > self.last
            self.last = leadership.epoch

    @rule(one=who)
    def renew(self, one: int) -> None:
        with suppress(Superseded):
            self.all[one].renew()

    @rule(one=who)
    def step_down(self, one: int) -> None:
        self.all[one].step_down()

    @rule(one=who)
    def be_replaced(self, one: int) -> None:
        """It dies, and starts again: the kernel unlocks its file, its lease stays."""
        dead = self.all[one]
        if dead.epoch:
            dead._stop.set()
            os.close(dead._handle)
        self.all[one] = Leadership(dead.folder, LONG, self.clock)

    @rule(seconds=st.sampled_from([1.0, LONG / 2, LONG, HUNG_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def one_leads_at_most(self) -> None:
        assert [one.epoch for one in self.all if leads(one)] in ([], [self.last])

    def teardown(self) -> None:
        for one in self.all:
            one.step_down()
        self.scratch.cleanup()


Contest.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestContest = Contest.TestCase

LEAD = """
import sys, time
from pathlib import Path
from tiresias.slurm_plugin.lead.leadership import Leadership, Superseded
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


def hear(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout
    for line in process.stdout:
        if line.startswith(word):
            return line
    raise AssertionError(f"it ended without a word of {word}")


def test_a_killed_leader_is_followed_long_before_its_lease_ends(start: Start) -> None:
    leader = start(seconds=600.0)
    hear(leader, "leads 1")
    standby = start(seconds=600.0)
    hear(standby, "waits")
    leader.kill()
    hear(standby, "leads 2")  # the kernel unlocked its file; the pytest timeout bounds this


def test_a_stopped_leader_is_followed_and_finds_out_when_it_goes_on(start: Start) -> None:
    leader = start()
    hear(leader, "leads 1")
    standby = start()
    hear(standby, "waits")
    leader.send_signal(signal.SIGSTOP)
    hear(standby, "leads 2")
    leader.send_signal(signal.SIGCONT)
    hear(leader, "superseded")
    assert standby.poll() is None


def test_a_leader_that_is_well_is_not_followed(start: Start) -> None:
    leader = start()
    hear(leader, "leads 1")
    standby = start()
    end = time.monotonic() + 3 * SECONDS
    while time.monotonic() < end:
        hear(standby, "waits")


def test_a_leader_whose_cycle_hangs_loses_the_lead_though_its_thread_lives(start: Start) -> None:
    leader = start("hangs")
    hear(leader, "leads 1")
    standby = start()
    hear(standby, "leads 2")
    hear(leader, "superseded")


def test_the_leader_knows_whether_somebody_waits(start: Start, tmp_path: Path) -> None:
    leader = Leadership(tmp_path / "leader", SECONDS)
    assert leader.take()
    assert not leader.has_standby()
    standby = start()
    hear(standby, "waits")
    assert leader.has_standby()
    standby.kill()
    end = time.monotonic() + 10 * SECONDS
    while leader.has_standby():
        assert time.monotonic() < end
        time.sleep(0.05)
    leader.step_down()


def test_a_full_disk_changes_no_leader(
    two: tuple[Leadership, Leadership], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leads goes on to look, and may lift its holds; who waits cannot take the lead, and supersedes nobody by trying."""
    first, second = two
    assert first.take()
    assert not second.take()
    clock.now += 2 * LONG  # the leader could not beat for long

    def full(_path: Path, _lease: lease.Lease) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(lease, "replace", full)
        for _ in range(3):
            with pytest.raises(Unavailable, match="No space left"):
                second.take()
            assert not second.epoch
            assert leads(first)
    assert leads(first)
    assert not second.take(), "there is room, and the leader has beaten"


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
