"""What Prometheus is told; alerts and dashboard speak of nothing else."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.views.metrics import metrics

ETC = Path(__file__).parents[3] / "etc"
TIRESIAS = [sys.executable, "-m", "tiresias", "metrics"]
MORE = {
    "leader": {"host": "ctl1", "pid": 1, "epoch": 3, "since": 0.0, "standby": True}, "tiresias": "0.1",
    "cycle": {"count": 1843, "seconds": 0.041, "period": 30.0, "median": 0.04, "p99": 0.2, "snapshot": 0.03},
    "actions": {"start": 7, "preempt": 2}, "paused": None,
    "packlimit": {"limit": 0.4, "learned": False, "jobs": 0, "error": None, "why": "too few"},
    "rpc": {"burst": 30.0, "rate": 2.0, "spent": 9, "calls": {"hold": 4}, "per_minute": 6.0, "postponed": 1,
            "slurmctld": {"threads": 2, "queue": 0, "database_queue": 0, "calls": 9, "mean_ms": 0.4}},
}  # fmt: skip


@pytest.fixture
def whole(status: dict[str, Any]) -> dict[str, Any]:
    for job in status["jobs"]:
        job["state"] = "RUNNING" if job["nodes"] else "WAITING"
    return status | MORE


def values(families: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    return {(one.name, *sorted(one.labels.values())): one.value for family in families for one in family.samples}


def test_jobs_and_gpus_are_counted(whole: dict[str, Any]) -> None:
    found = values(metrics(whole, whole["time"] + 5.0))
    assert found["tiresias_up",] == 1
    assert found["tiresias_status_age_seconds",] == 5
    running = [job for job in whole["jobs"] if job["nodes"]]
    for queue in "01":
        assert found["tiresias_jobs", queue, "running"] == sum(str(job["queue"]) == queue for job in running)
    use = {name: found["tiresias_gpus", name] for name in ("managed", "others", "free", "gone")}
    assert sum(use.values()) == 60
    assert use["managed"] == sum(job["gpus"] for job in running)
    assert (use["others"], use["gone"]) == (1, 4)
    assert found["tiresias_waiting_seconds", "longest"] == max(
        job["waited"] for job in whole["jobs"] if not job["nodes"]
    )
    assert found["tiresias_actions_total", "preempt"] == 2


def test_no_name_of_a_user_or_a_job_gets_out(whole: dict[str, Any]) -> None:
    names = {str(job[key]) for job in whole["jobs"] for key in ("user", "name", "id")}
    labels = {label for family in metrics(whole, 0.0) for one in family.samples for label in one.labels.values()}
    assert not names & labels


def test_without_a_controller_it_is_down_and_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [*TIRESIAS, "--socket", str(tmp_path / "none")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert values(text_string_to_metric_families(done.stdout)) == {("tiresias_up",): 0.0}


def test_it_is_served(whole: dict[str, Any], tmp_path: Path) -> None:
    words = [*TIRESIAS, "--socket", str(tmp_path / "control.sock"), "--listen", "127.0.0.1:0"]
    with ControlServer(tmp_path / "control.sock", lambda request, peer: whole), subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True
    ) as serving:  # fmt: skip
        try:
            assert serving.stderr is not None
            address = serving.stderr.readline().split()[-1]
            with urllib.request.urlopen(address, timeout=20) as answer:
                text = answer.read().decode()
        finally:
            serving.send_signal(signal.SIGINT)
        assert serving.wait(20) == 130
    assert "tiresias_up 1.0" in text


def test_a_bad_address_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run([*TIRESIAS, "--listen", "9817"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "tiresias: --listen '9817': give an address and a port, such as 127.0.0.1:9817\n"


@pytest.mark.parametrize("file", ["tiresias-alerts.yml", "tiresias-dashboard.json"])
def test_only_what_is_served_is_asked_for(file: str, whole: dict[str, Any]) -> None:
    text = (ETC / file).read_text()
    expressions = re.findall(r"expr: (.*)", text)
    if file.endswith(".json"):
        expressions = [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    asked = {name for each in expressions for name in re.findall(r"tiresias_\w+", each)}
    served = {one.name for family in metrics(whole, 0.0) for one in family.samples}
    assert asked
    assert asked <= served
    for name, label, value in re.findall(r'(tiresias_\w+)\{(\w+)="(\w+)"\}', " ".join(expressions)):
        samples = [one for family in metrics(whole, 0.0) for one in family.samples if one.name == name]
        assert any(one.labels.get(label) == value for one in samples), (name, label, value)
