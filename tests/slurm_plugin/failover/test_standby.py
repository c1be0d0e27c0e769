"""A controller that waits for the lead: its log, its notes to the leader, and its takeover."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.durable.leadership import Leadership
from tiresias.errors import Unavailable
from tiresias.slurm_plugin.failover.standby import HAND_OVER_NOTE, AnotherLeads, Standby
from tiresias.slurm_plugin.sockets.peer import Peer

LONG = 1000.0


class Clock:
    """Advances by a second at each question: nothing here waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leadership]:
    found = Leadership(tmp_path / "leader", LONG)
    assert found.take()
    yield found
    found.step_down()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Leadership]:
    found = Leadership(tmp_path / "leader", LONG)
    yield found
    found.step_down()


class Stands:
    """`stand` of Standby.wait: leaves after so many looks; does something at each."""

    def __init__(self, looks: int, then: object = None) -> None:
        self.left, self._then = looks, then

    def __call__(self, _seconds: float) -> bool:
        self.left -= 1
        if callable(self._then):
            self._then()
        return self.left > 0


def test_it_reports_the_leader_once_and_that_it_waits(
    leader: Leadership, waiting: Leadership, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert not list(leader.folder.glob("standby-*"))
    assert not Standby(waiting, tmp_path).wait(Stands(5))
    assert [one.message for one in caplog.records] == [f"this controller is a standby: {leader.lease()} leads"]
    assert len(list(leader.folder.glob("standby-*"))) == 1
    assert leader.notes() == []


def test_it_leads_as_soon_as_the_leader_steps_down(leader: Leadership, waiting: Leadership, tmp_path: Path) -> None:
    waiting.leave_note(HAND_OVER_NOTE)
    assert Standby(waiting, tmp_path).wait(Stands(5, leader.step_down))
    assert waiting.epoch == 2
    assert waiting.notes() == [], "the note is removed"


def test_it_asks_for_the_lead_where_its_slurmctld_became_the_primary_one(
    leader: Leadership, waiting: Leadership, tmp_path: Path
) -> None:
    assert not Standby(waiting, tmp_path, called=lambda: True).wait(Stands(3))
    assert leader.notes() == [HAND_OVER_NOTE]


def test_a_controller_that_yielded_the_lead_waits(leader: Leadership, waiting: Leadership, tmp_path: Path) -> None:
    leader.step_down()
    polite = Standby(waiting, tmp_path)
    polite.yield_lead()
    assert not polite.wait(Stands(5))
    assert waiting.epoch == 0
    assert Standby(waiting, tmp_path).wait(Stands(1))


def test_a_live_leader_is_not_followed_and_a_silent_one_is(
    leader: Leadership, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known as soon as the lease has changed between two polls, or has ended; never at the first poll."""
    clock = Clock()
    monkeypatch.setattr("tiresias.slurm_plugin.failover.standby.time.monotonic", clock)
    beats: list[float] = []

    def beat(seconds: float) -> None:
        beats.append(seconds)
        leader._beat()

    monkeypatch.setattr("tiresias.slurm_plugin.failover.standby.time.sleep", beat)
    other = Leadership(tmp_path / "leader", LONG)
    with pytest.raises(AnotherLeads, match="stop that one first"):
        Standby(other, tmp_path).obtain()
    assert beats == [other.pause], "one pause, and one beat of the leader, is enough"
    silent = Leadership(tmp_path / "leader", LONG, clock)
    monkeypatch.setattr(
        "tiresias.slurm_plugin.failover.standby.time.sleep", lambda seconds: setattr(clock, "now", clock.now + LONG)
    )
    Standby(silent, tmp_path).obtain()
    assert silent.epoch == 2
    silent.step_down()


def test_a_state_folder_out_of_reach_is_waited_for(
    leader: Leadership,
    waiting: Leadership,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away() -> None:
        raise Unavailable("state folder: Stale file handle")

    monkeypatch.setattr(waiting, "announce_standby", away)
    assert not Standby(waiting, tmp_path).wait(Stands(3))
    assert caplog.text.count("Stale file handle; trying again") == 2


def test_the_first_leader_makes_the_folders_for_its_user_alone(tmp_path: Path) -> None:
    """The folders above the state folder may be missing, too."""
    one = Leadership(tmp_path / "var" / "lib" / "state" / "leader", LONG)
    assert not one.seen_alive
    assert one.take()
    assert one.epoch == 1
    assert (one.folder.stat().st_mode & 0o777, (one.folder / "epoch-1").stat().st_mode & 0o137) == (0o700, 0)
    one.step_down()


def test_a_controller_that_leads_and_has_published_nothing_is_no_standby(leader: Leadership, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="has just taken the lead and has not seen Slurm yet; try again"):
        Standby(leader, tmp_path).answer({"op": "status"}, Peer(0, 0, 0))
