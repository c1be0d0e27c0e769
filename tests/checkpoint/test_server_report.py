"""A parameter server reports how long its own work of a step takes; it is no rank, and handles no checkpoint signal."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiresias.checkpoint import ServerReport
from tiresias.protocol import control, rank_files

SERVER = """
import sys, time
from tiresias.checkpoint import ServerReport
report = ServerReport.from_env()
report.report_every(0.01)
print("ready", flush=True)
for _ in sys.stdin:
    with report.exchange():
        time.sleep(0.03)
    time.sleep(0.01)
    report.stepped()
    print("stepped", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = control.job_folder(tmp_path, os.getuid(), "7")
    control.make(folder, "")
    return folder


def works(root: Path, restart: int = 2) -> list[rank_files.RankWork]:
    return rank_files.work_of_ranks(root, os.getuid(), "7", restart, control.SERVERS)


def test_the_exchange_is_no_own_work(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setenv("SLURMD_NODENAME", "gpu07")
    report = ServerReport(folder, restart=2)
    for step in range(1, 301):
        with report.exchange():
            now += 0.75
        now += 0.25
        report.stepped()
        if step == 60:
            assert works(tmp_path) == [], "not measured for long enough"
    [found] = works(tmp_path)
    assert found.node == "gpu07"
    assert (found.own, found.whole) == pytest.approx((0.25, 1.0), rel=0.05)
    assert works(tmp_path, restart=1) == [], "another run"
    assert rank_files.registered(tmp_path, os.getuid(), "7") == 0, "it is no rank"


def test_a_folder_of_another_job_or_one_that_is_away_gets_no_report(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    control.mark(folder, "first")
    for report in (ServerReport(folder, 2, "second"), ServerReport(folder / "away", 2), ServerReport(None)):
        for _ in range(200):
            now += 1.0
            report.stepped()
    assert works(tmp_path) == []
    assert not (folder / control.SERVERS).exists()


def test_a_server_process_reports_and_withdraws_its_report(tmp_path: Path, folder: Path) -> None:
    env = {**os.environ, "TIRESIAS_CONTROL": str(folder), "TIRESIAS_RESTART": "2", "SLURM_JOB_ID": "7"}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        assert server.stdout.readline() == "ready\n"
        while not (found := works(tmp_path)):
            server.stdin.write("step\n")
            server.stdin.flush()
            assert server.stdout.readline() == "stepped\n"
        server.stdin.close()
        assert server.wait() == 0
    assert 0.0 < found[0].own < found[0].whole
    assert not math.isnan(found[0].own)
    assert works(tmp_path) == []


def test_signal_handlers_stay_as_they_are(folder: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)]
    ServerReport(folder)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)] == before
