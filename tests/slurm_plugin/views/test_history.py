"""`tiresias history` as users start it: a real socket, a real journal."""

from __future__ import annotations

import io
import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from tiresias.slurm_plugin.sockets import history_pages
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.sockets.history_pages import HistoryPages
from tiresias.slurm_plugin.sockets.privacy import OPEN
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow
from tiresias.slurm_plugin.views.history import SHOWN, by_user, lost, ordered, render_jobs, with_names
from tiresias.slurm_plugin.views.table_layout import UNLIMITED

NOW = float(int(time.time()))
HOUR = 3600.0
UNPRIVILEGED = pwd.getpwnam("nobody").pw_uid
STRANGER = 54321  # has no name


def fill(journal: Journal) -> None:
    """nobody: one job, preempted once for job 9; the stranger: two that ran through, the second long ago."""
    victim = JobRow("7@1", "7", UNPRIVILEGED, NOW - 10 * HOUR, ended=True, over=NOW - 2 * HOUR)
    journal.save_job(victim)
    journal.save_run(RunRow("7@1", 0, NOW - 9 * HOUR, NOW - 7 * HOUR, 4, "gpu01:4", 60.0, 2.0, 9.0))
    journal.save_run(RunRow("7@1", 1, NOW - 6 * HOUR, NOW - 2 * HOUR, 4, "gpu02:4", 27.0, None, None, 20, 2.7))
    move = Intent("7@1", "7", 0, IntentKind.PREEMPT, IntentStep.HOLD, beneficiary="9")
    journal.begin(move)
    journal.finish(move, "parked: 9.00 s after the decision")
    for job_id, ago in (("9", 7.0), ("5", 30 * 24.0)):
        start = NOW - ago * HOUR
        journal.save_job(JobRow(f"{job_id}@2", job_id, STRANGER, start, ended=True, over=start + HOUR))
        journal.save_run(RunRow(f"{job_id}@2", 0, start, start + HOUR, 8, "gpu01:8"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlServer]:
    with closing(Journal(tmp_path / "state")) as journal:
        fill(journal)
        asks = HistoryPages(journal.path, OPEN)
        with ControlServer(tmp_path / "control.sock", lambda request, peer: asks.answer(request, peer.uid)) as running:
            yield running


def history(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    keep = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return subprocess.run(
        [sys.executable, "-m", "tiresias", "history", *words],
        env=keep | {"TIRESIAS_PATHS_RUN": str(tmp_path), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def asked(tmp_path: Path, *words: str) -> dict[str, Any]:
    done = history(tmp_path, *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout))


def test_by_user(server: ControlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_pages, "JOBS_PER_PAGE", 1)  # as of many thousand jobs
    first, second = asked(tmp_path)["users"]
    assert first == {
        "user": "nobody", "uid": UNPRIVILEGED, "jobs": 1, "runs": 2, "preemptions": 1, "served": 4 * 6 * HOUR, "queued": HOUR,
        "parked": HOUR, "saving": 36.0, "restoring": 108.0, "redone": 216.0, "lost": 360.0,
    }  # fmt: skip
    assert (second["user"], second["jobs"], second["served"], second["lost"]) == (str(STRANGER), 1, 8 * HOUR, 0.0)


def test_text_by_user(server: ControlServer, tmp_path: Path) -> None:
    head, *lines = history(tmp_path, "--sort", "lost").stdout.splitlines()
    titles = "user jobs runs preempted GPU time 1st wait paused lost share saving starting redone"
    assert " ".join(head.split()) == titles
    assert " ".join(lines[0].split()) == "nobody 1 2 1x 24.0 h 1h00m 1h00m 360 s 0.4% 36 s 108 s 216 s"
    assert lines[1].startswith(f"{STRANGER} ")
    assert "tiresias whatif" in lines[-1]


def test_jobs_of_a_user(server: ControlServer, tmp_path: Path) -> None:
    since = time.strftime("%Y-%m-%d", time.localtime(NOW - 40 * 86400))
    found = asked(tmp_path, "--user", str(STRANGER), "--since", since, "--sort", "submit")
    assert [job["id"] for job in found["jobs"]] == ["9", "5"]
    text = history(tmp_path, "--user", "nobody").stdout.splitlines()
    assert text[1].split()[:2] == ["7", "nobody"]


def test_one_job(server: ControlServer, tmp_path: Path) -> None:
    lines = history(tmp_path, "7").stdout.splitlines()
    assert lines[0].startswith("job 7 of nobody, submitted ")
    assert "attained 24.0 GPU-h, of which preemptions cost 360 GPU-s; waited 1h00m for its first run" in lines[1]
    assert [line.split()[0] for line in lines[3:6]] == ["run", "1", "2"]
    assert "9.0s" in lines[4]
    (job,) = asked(tmp_path, "7")["jobs"]
    assert [run["beneficiary"] for run in job["each_run"]] == ["9", ""]


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["x"], 2, "is not a job id"),
        (["8"], 1, "job 8: not in the journal"),
        (["7", "--user", "nobody"], 2, "JOBID shows all runs of the job"),
        (["--user", "no such\x1b[2J"], 2, "is not a user of this host"),
        (["--since", "2030-01-02", "--until", "2030-01-01"], 2, "--since must be before --until"),
        (["--since", "soon"], 2, "is not a date"),
    ],
)
def test_mistakes(server: ControlServer, tmp_path: Path, words: list[str], code: int, problem: str) -> None:
    done = history(tmp_path, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


def job(number: int, **changes: Any) -> dict[str, Any]:
    zero = dict.fromkeys(("preemptions", "queued", "parked", "saving", "restoring", "redone"), 0.0)
    return (
        {"id": str(number), "uid": number % 3, "submit": 1.0, "end": 0.0, "gpus": 1, "runs": 1, "served": 10.0 * number}
        | zero
        | changes
    )


def test_sums_are_those_of_the_jobs() -> None:
    jobs = with_names([job(number, saving=0.25) for number in range(9)], {0: "a", 1: "b", 2: "c"})
    users = ordered(by_user(jobs), "served")
    assert [(one["user"], one["jobs"], one["served"], one["lost"]) for one in users] == [
        ("c", 3, 150.0, 0.75),
        ("b", 3, 120.0, 0.75),
        ("a", 3, 90.0, 0.75),
    ]
    assert sum(map(lost, users)) == sum(map(lost, jobs))


@pytest.mark.parametrize("width", [20, 80, 100, 200])
def test_any_width_holds_and_names_are_harmless(width: int) -> None:
    jobs = with_names(
        [job(number) for number in range(SHOWN + 9)], dict.fromkeys(range(3), "\x1b[2J\n\u202e" + "x" * 999)
    )
    screen = Console(width=width, record=True, color_system=None, markup=False)
    with screen.capture() as shown:
        screen.print(render_jobs(jobs, width, NOW))
    lines = shown.get().splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "… and 9 more" in "\n".join(lines)
    assert all(line.isprintable() for line in lines)


def test_a_file_or_a_pipe_gets_every_row_whole() -> None:
    jobs: Any = with_names(
        [job(number, id=f"{number}_1234567") for number in range(2 * SHOWN)], dict.fromkeys(range(3), "u" * 60)
    )
    screen = Console(width=UNLIMITED, record=True, file=io.StringIO())
    screen.print(render_jobs(jobs, UNLIMITED, NOW))
    lines = screen.export_text().splitlines()
    assert len([line for line in lines if f" {'u' * 60} " in line]) == 2 * SHOWN
    assert all(any(f"{number}_1234567 " in line for line in lines) for number in range(2 * SHOWN))
    assert not any("…" in line for line in lines)
    assert max(map(len, lines)) < 250
