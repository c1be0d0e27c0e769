"""Prometheus's own programs read both forms of the metrics: promtool, and node_exporter's textfile collector."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.example_service import ExampleService
from tests.slurm_plugin.views.scrapes import fetch, once, served
from tiresias.sandbox import paths
from tiresias.services.parameter_service.manager.report_folder import ReportFolder
from tiresias.slurm_plugin.commands import exposition
from tiresias.slurm_plugin.sockets.control_socket import ControlServer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prometheus")]
ETC = Path(__file__).parents[3] / "etc"
CACHE = paths.home() / "prometheus"  # Debian's packages, unpacked
PROGRAMS = {"promtool": "prometheus", "prometheus-node-exporter": "prometheus-node-exporter"}  # and their packages


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder that holds them; nothing is installed, as the packages start services."""
    folder = CACHE / "usr/bin"
    for name, package in PROGRAMS.items():
        if not (folder / name).exists():
            _unpack(package)
    return folder


def _unpack(package: str) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        pytest.skip(f"{package} is a Debian package, and this host has no apt-get")
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["apt-get", "download", "-qq", package], cwd=CACHE, capture_output=True, text=True, timeout=240, check=False
    )
    if done.returncode:
        pytest.skip(f"{package} cannot be downloaded: {done.stderr.strip().splitlines()[-1]}")
    for file in CACHE.glob(f"{package}_*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(file), str(CACHE)], check=True, timeout=120)
        file.unlink()


def check(programs: Path, text: str) -> subprocess.CompletedProcess[str]:
    words = [str(programs / "promtool"), "check", "metrics"]
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=False)


def test_promtool_accepts_what_is_printed(programs: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    with ControlServer(tmp_path / "control.sock", lambda request, peer: whole):
        done = check(programs, once(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_accepts_the_metrics_of_the_parameter_service(programs: Path, tmp_path: Path) -> None:
    example = ExampleService(tmp_path / "state")
    ReportFolder(tmp_path / "report").write(*example.shown(time.time()))
    example.close()
    printed = exposition.text(tmp_path / "none.sock", service=tmp_path / "report")
    assert "tiresias_service_ratio" in printed
    done = check(programs, printed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_accepts_what_is_served_as_text(programs: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    with served(whole, tmp_path) as address:
        done = check(programs, fetch(address, "text/plain")[1])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_refuses_openmetrics(programs: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    """Why there are two forms: this one is for clients that accept it."""
    with served(whole, tmp_path) as address:
        done = check(programs, fetch(address, "application/openmetrics-text;version=1.0.0")[1])
    assert done.returncode != 0


def test_promtool_accepts_the_alerts(programs: Path) -> None:
    words = [str(programs / "promtool"), "check", "rules", str(ETC / "tiresias-alerts.yml")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alert_on_slow_nodes_fires_after_an_hour_and_outlasts_a_restart(programs: Path, tmp_path: Path) -> None:
    # Equal nodes for half an hour, then two slow ones; a restarted controller learns them again within five minutes.
    series = {"series": 'tiresias_slow_nodes{instance="ctl1"}', "values": "0x29 2x99 0x4 2x9 0x99"}
    expected = {
        "exp_labels": {"instance": "ctl1", "severity": "warning"},
        "exp_annotations": {"summary": "Steps take persistently longer on 2 nodes. tiresias doctor names them."},
    }
    moments = {"29m": [], "88m": [], "90m": [expected], "132m": [expected], "144m": [expected], "170m": []}
    alerts = [
        {"eval_time": at, "alertname": "TiresiasSlowNodes", "exp_alerts": alerts} for at, alerts in moments.items()
    ]
    rules = {"rule_files": [str(ETC / "tiresias-alerts.yml")], "evaluation_interval": "1m"}
    tests = rules | {"tests": [{"interval": "1m", "input_series": [series], "alert_rule_test": alerts}]}
    (tmp_path / "tests.yml").write_text(json.dumps(tests))  # JSON is YAML
    words = [str(programs / "promtool"), "test", "rules", str(tmp_path / "tests.yml")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_node_exporter_passes_the_printed_file_on(programs: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    with ControlServer(tmp_path / "control.sock", lambda request, peer: whole):
        text = once(tmp_path)
    (tmp_path / "tiresias.prom").write_text(text)
    with exporter(programs, tmp_path) as address:
        passed = fetch(address, "text/plain")[1]
    assert "node_textfile_scrape_error 0" in passed
    names = {line.split()[0] for line in text.splitlines() if not line.startswith("#")}
    assert names
    assert names <= {line.split()[0] for line in passed.splitlines() if not line.startswith("#")}


@contextmanager
def exporter(programs: Path, folder: Path) -> Iterator[str]:
    """The address of a node_exporter with the textfile collector alone."""
    words = [
        str(programs / "prometheus-node-exporter"),
        "--collector.disable-defaults",
        "--collector.textfile",
        f"--collector.textfile.directory={folder}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{_port(process.pid)}/metrics"
        finally:
            process.kill()


def _port(pid: int) -> int:
    """That the process listens on."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if found := _ports(pid):
            return found[0]
        time.sleep(0.05)
    raise AssertionError("it does not listen")


def _ports(pid: int) -> list[int]:
    sockets = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
