"""What an administrator switched outlives the controller, and its record names the administrator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.errors import UsageError
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.switches import (
    PAUSED,
    STOPPED,
    Switched,
    pause,
    refuse_if_stopped,
    resume,
    stop,
    switched,
)


def test_a_pause_is_in_the_journal(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    assert switched(first, PAUSED) is None
    assert "are paused" in pause(first, 100.0, "root", 'file "system"')
    first.close()
    second = Journal(tmp_path)
    assert switched(second, PAUSED) == Switched(100.0, "root", 'file "system"')
    assert resume(second).startswith("resumed; it was paused by root since 19")
    assert switched(second, PAUSED) is None
    second.close()


def test_both_may_be_repeated(journal: Journal) -> None:
    pause(journal, 100.0, "root", "")
    assert "paused already, by root since" in pause(journal, 200.0, "uid 7", "still")
    assert switched(journal, PAUSED) == Switched(100.0, "uid 7", "still")
    resume(journal)
    assert resume(journal) == "nothing was paused or stopped"


def test_a_stopped_controller_does_not_start(journal: Journal) -> None:
    refuse_if_stopped(journal)
    pause(journal, 100.0, "root", "")
    refuse_if_stopped(journal)
    stop(journal, 100.0, "root", "drill")
    with pytest.raises(UsageError, match=r"controllers are stopped by root since .*: drill; `tiresias resume`"):
        refuse_if_stopped(journal)
    assert "paused by root" in (words := resume(journal))
    assert "stopped by root" in words
    refuse_if_stopped(journal)
    assert switched(journal, STOPPED) is None
