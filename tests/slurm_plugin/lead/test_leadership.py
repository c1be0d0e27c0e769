"""At most one controller leads, for any order of polls, ends and pauses."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.examples import examples
from tiresias.durable import lease
from tiresias.durable.lead_folder import KEPT_EPOCHS
from tiresias.durable.leadership import HUNG_SECONDS, Leadership, Superseded
from tiresias.errors import Unavailable

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


def test_a_leader_that_stepped_down_is_replaced_at_once(two: tuple[Leadership, Leadership]) -> None:
    first, second = two
    assert first.take()
    first.step_down()
    assert second.take()
    assert second.epoch == 2
    with pytest.raises(Superseded):
        first.check()


def test_the_age_of_a_lease_is_measured_by_the_clock_of_the_standby(
    two: tuple[Leadership, Leadership], clock: Clock
) -> None:
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


def test_an_old_lease_written_over_a_later_one_has_no_effect(two: tuple[Leadership, Leadership], clock: Clock) -> None:
    first, second = two
    assert first.take()
    old = (first.folder / "lease").read_bytes()
    assert second.seize()
    (first.folder / "lease").write_bytes(old)  # it slept between its look and its write
    clock.now += LONG
    with pytest.raises(Superseded):
        first.check()  # it is late, so it renews its lease and reads it again
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


def test_a_controller_that_ended_before_its_first_lease_is_waited_for(
    two: tuple[Leadership, Leadership], clock: Clock
) -> None:
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
    """Three controllers that poll, renew, pause, end and step down in any order. Only the last that took the lead may write."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.clock, self.last = Clock(), 0
        self.all = [Leadership(Path(self.scratch.name) / "leader", LONG, self.clock) for _ in range(3)]

    controller = st.integers(0, 2)

    @rule(one=controller, seize=st.booleans())
    def take(self, one: int, seize: bool) -> None:
        leadership = self.all[one]
        if not leadership.epoch and (leadership.seize() if seize else leadership.take()):
            assert leadership.epoch > self.last
            self.last = leadership.epoch

    @rule(one=controller)
    def renew(self, one: int) -> None:
        with suppress(Superseded):
            self.all[one].renew()

    @rule(one=controller)
    def step_down(self, one: int) -> None:
        self.all[one].step_down()

    @rule(one=controller)
    def restart(self, one: int) -> None:
        """End and start again: the kernel unlocks its file, its lease stays."""
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


Contest.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
TestContest = Contest.TestCase


def test_a_full_disk_changes_no_leader(
    two: tuple[Leadership, Leadership], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader continues and may lift its holds; a standby cannot take the lead, and does not supersede the leader by trying."""
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
    assert not second.take(), "there is space, and the leader has renewed its lease"
