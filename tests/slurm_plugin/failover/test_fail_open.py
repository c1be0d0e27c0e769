"""Silence is a lease that does not change while one watches; nothing else counts."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.durable.leadership import Leadership
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.config import Config, Paths
from tiresias.slurm_plugin.failover.fail_open import held, is_silent, is_stopped, own_journal
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import FILE, Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow
from tiresias.slurm_plugin.state.switches import stop


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return replace(Config(), paths=Paths(state=tmp_path / "state", run=tmp_path / "run"), period=0.1)


def leadership(config: Config, seconds: float = 1.0) -> Leadership:
    return Leadership(config.paths.state / "leader", seconds)


def test_a_leader_that_beats_is_not_silent(config: Config) -> None:
    leader = leadership(config)
    assert leader.take()
    assert not is_silent(leadership(config), 30.0)  # its thread beats five times a second
    leader.step_down()
    assert is_silent(leadership(config), 0.3)


def test_a_takeover_during_the_wait_is_not_silent(config: Config) -> None:
    leadership(config).folder.mkdir(parents=True)
    heir = leadership(config)
    taking = threading.Timer(0.3, heir.take)
    taking.start()
    assert not is_silent(leadership(config), 30.0)
    taking.join()
    heir.step_down()


def test_a_controller_that_ends_soon_after_each_start_is_silent(config: Config) -> None:
    """It takes the lead, and is gone before it renews its lease: the jobs that it holds wait for nothing."""
    over = threading.Event()

    def start_again() -> None:
        while not over.wait(0.1):
            leader = leadership(config)
            assert leader.take()
            leader.step_down()

    starts = threading.Thread(target=start_again)
    starts.start()
    assert is_silent(leadership(config, 5.0), 1.0)
    over.set()
    starts.join()
    assert leadership(config).lease().epoch > 3


def test_the_watch_begins_anew_where_a_leader_steps_down(config: Config) -> None:
    leader = leadership(config, 3600.0)  # it will not beat again for twelve minutes
    assert leader.take()
    leaving = threading.Timer(0.5, leader.step_down)
    leaving.start()
    began = time.monotonic()
    assert is_silent(leadership(config), 1.0)
    assert time.monotonic() - began > 1.4
    leaving.join()


def test_a_folder_without_any_leader_so_far(config: Config) -> None:
    assert is_silent(leadership(config), 0.2)
    assert held(config) == 0
    assert not is_stopped(config)


def test_the_number_of_controlled_jobs(config: Config) -> None:
    journal = Journal(config.paths.state)
    for number in range(4):
        journal.save_job(JobRow(f"{number}@1", str(number), 1000, 1.0, held=number == 1, ended=number == 3))
    journal.begin(Intent("2@1", "2", 0, IntentKind.START, IntentStep.START))
    journal.begin(Intent("3@1", "3", 0, IntentKind.START, IntentStep.START))
    assert held(config) == 2, "one is held, one is being started; one ended on the way"
    assert not is_stopped(config)
    stop(journal, 1.0, "root", "")
    assert is_stopped(config)
    journal.close()


def test_a_database_that_cannot_be_read_is_not_an_empty_one(config: Config) -> None:
    config.paths.state.mkdir(parents=True)
    (config.paths.state / FILE).write_bytes(b"no database" * 100)
    assert held(config) is None
    assert not is_stopped(config)


def test_the_journal_cannot_be_opened_while_a_controller_leads(config: Config) -> None:
    with own_journal(config) as journal:
        assert journal.epoch == 1
    leader = leadership(config, config.leader_seconds)
    assert leader.take()
    with pytest.raises(TiresiasError, match="another controller leads"), own_journal(config):
        pass
    leader.step_down()
