"""What a controller in mode shadow has written, read by `tiresias whatif --from-shadow`. The journal here is a real one."""

from __future__ import annotations

import getpass
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tiresias.__main__ import main
from tiresias.errors import UsageError
from tiresias.simulator.formats import shadow_journal as reader
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.state.watched import PREEMPT, START, WatchRow, WouldRow

BEGAN, UNTIL = 1000.0, 5000.0


def job(journal: Journal, job_id: str, submit: float, *runs: tuple[float, float], ended: bool = False) -> None:
    """runs: start and end, 0 where it goes on; 2 GPUs."""
    key = f"{job_id}@{submit:.0f}"
    journal.save_job(JobRow(key, job_id, os.getuid(), submit, ended=ended))
    for restart, (start, end) in enumerate(runs):
        journal.save_run(RunRow(key, restart, start, end, 2, "gpu01:2"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Four GPUs: 5 waits for 100 s though it would fit, and 1 is in the way of others for 50 s."""
    with closing(Journal(tmp_path)) as journal:
        journal.save_watch(
            WatchRow(
                BEGAN,
                3000.0,
                4,
                busy=4000.0,
                movable=1000.0,
                agreed=1850.0,
                idle=200.0,
                taken=100.0,
                sooner=1,
                preempted=1,
            )
        )
        journal.save_watch(WatchRow(3500.0, UNTIL, 4, agreed=1500.0))
        job(journal, "1", 900.0, (950.0, 2000.0), ended=True)
        job(journal, "2", 1100.0, (1200.0, 1500.0), (1700.0, 2700.0), ended=True)
        job(journal, "3", 1200.0, (1300.0, 0.0))  # runs
        job(journal, "4", 1300.0)  # waits
        job(journal, "5", 1400.0, (1600.0, 1700.0), ended=True)
        job(journal, "6", 1400.0, ended=True)  # was cancelled while it waited
        job(journal, "7", 100.0, (200.0, 999.0), ended=True)  # before anybody watched
        job(journal, "8", 4000.0, (4100.0, 9000.0), ended=True)  # ended in mode exact, long after
        job(journal, "9", 6000.0, (6100.0, 9000.0), ended=True)
        journal.save_would(WouldRow("5@1400", 0, START, 1500.0, BEGAN, 1600.0, 2, "gpu01:2"))
        journal.save_would(WouldRow("1@900", 0, PREEMPT, 1500.0, BEGAN, 1550.0, 2, "", "5"))
    return tmp_path


def test_the_jobs_of_the_watch_as_they_were_at_its_end(state: Path) -> None:
    seen, jobs = reader.read(state)
    found = dict(zip(jobs.job_id, zip(jobs.submit, jobs.gpus, jobs.duration, jobs.finish, strict=True), strict=True))
    assert found == {
        "1": (900.0, 2, 1050.0, 2000.0),
        "2": (1100.0, 2, 1300.0, 2700.0),
        "3": (1200.0, 2, 3700.0, UNTIL),
        "5": (1400.0, 2, 100.0, 1700.0),
        "8": (4000.0, 2, 900.0, UNTIL),
    }
    assert [(one.reason, one.count, one.example) for one in jobs.dropped] == [("has not run yet", 1, "4")]
    assert set(jobs.user) == {getpass.getuser()}
    assert (seen.began, seen.until, seen.gpus, seen.seconds, seen.agreed) == (BEGAN, UNTIL, 4, 3500.0, 3350.0)
    assert (seen.gpu_seconds, seen.idle, seen.taken) == (4 * 3500.0, 200.0, 100.0)
    assert sorted(zip(np.nan_to_num(seen.won).tolist(), seen.lost.tolist(), strict=True)) == [(0.0, 50.0), (100.0, 0.0)]


def test_whatif_replays_them(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, numbers = tmp_path / "page.html", tmp_path / "numbers.json"
    words = ["whatif", "--from-shadow", str(state), "--policy", "las", "--html", str(page), "--json", str(numbers)]
    assert main(words) == 0
    found = json.loads(numbers.read_text())
    assert (found["jobs"], found["nodes"] * found["gpus_per_node"]) == (5, 4)
    assert found["recorded"]["mean_jct"] == pytest.approx(np.mean([1100.0, 1600.0, 3800.0, 300.0, 1000.0]))
    assert found["shadow"]["sooner"] == {"runs": 1, "seconds": 100.0, "median": 100.0, "p95": 100.0}
    assert found["shadow"]["preempted"] == {"runs": 1, "seconds": 50.0, "median": 50.0, "p95": 50.0}
    reported = " ".join(capsys.readouterr().out.split())
    assert "dropped 1 job: job 4 has not run yet" in reported
    for text in (reported, page.read_text()):
        assert "for 95.7% of it Slurm ran what Tiresias would have run" in text
        assert "25.0% of the 1.1 GPU-hours used were of jobs that can save" in text
        assert "would have started sooner" in text


def test_it_is_read_while_the_controller_writes(state: Path) -> None:
    with closing(Journal(state)) as journal, journal.batch():
        journal.save_watch(WatchRow(9000.0, 9010.0, 4))
        assert reader.read(state)[0].until == UNTIL, "what is not committed is not there"


@pytest.mark.parametrize("what", ["none", "never", "damaged", "older"])
def test_what_cannot_be_read_is_one_line(tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    if what == "damaged":
        (tmp_path / reader.FILE).write_bytes(b"no database" * 1000)
    if what == "never":
        Journal(tmp_path).close()
    if what == "older":
        with closing(sqlite3.connect(tmp_path / reader.FILE)) as db:
            db.execute("create table job (key text)")
    assert main(["whatif", "--from-shadow", str(tmp_path)]) == UsageError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / reader.FILE) in line
    assert {"none": "paths.state", "never": "mode shadow", "damaged": "cannot be read", "older": "cannot be read"}[
        what
    ] in line


@pytest.mark.parametrize("extra", [["trace.csv"], ["--nodes", "4"], ["--partition", "gpu"]])
def test_nothing_else_selects_jobs(state: Path, extra: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", *extra, "--from-shadow", str(state)]) == UsageError.exit_code
    assert "--from-shadow cannot be combined" in capsys.readouterr().err
