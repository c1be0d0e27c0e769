"""The parameter service's metrics for Prometheus: of a report, and as `tiresias metrics` prints and serves them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.example_service import NOW, ExampleService
from tests.slurm_plugin.views.scrapes import TIRESIAS
from tests.slurm_plugin.views.test_metrics import values
from tiresias.protocol.service_report import STALE_S, ServiceReport
from tiresias.services.parameter_service.manager.report_folder import ReportFolder
from tiresias.services.parameter_service.manager.use_limits import UseLimits
from tiresias.slurm_plugin.commands.exposition import text
from tiresias.slurm_plugin.views.service_metrics import service_metrics


@pytest.fixture
def example(tmp_path: Path) -> Iterator[ExampleService]:
    found = ExampleService(tmp_path / "state")
    yield found
    found.close()


@pytest.fixture
def report(example: ExampleService) -> ServiceReport:
    return example.shown()[0]


def test_sums_and_states(report: ServiceReport) -> None:
    found = values(service_metrics(report, NOW))
    assert found["tiresias_service_up",] == 1
    assert found["tiresias_service_report_age_seconds",] == 2
    states = {
        name: found["tiresias_service_aggregators", name] for name in ("requested", "waiting", "running", "ending")
    }
    assert states == {"requested": 2, "waiting": 1, "running": 3, "ending": 1}
    assert (found["tiresias_service_jobs",], found["tiresias_service_declared_servers",]) == (5, 9)
    assert found["tiresias_service_ratio",] == pytest.approx(6 / 9)
    assert 0 < found["tiresias_service_load", "mean"] <= found["tiresias_service_load", "largest"] <= 1


def test_limits_of_a_user(example: ExampleService) -> None:
    example.limits, example.waiting = UseLimits(aggregators=0.5, jobs=3), 2
    found = values(service_metrics(example.shown()[0], NOW))
    limits = {key[1]: value for key, value in found.items() if key[0] == "tiresias_service_user_limit"}
    assert (limits, found["tiresias_service_waiting_jobs",]) == ({"aggregators": 4, "jobs": 3}, 2)


def test_a_manager_that_does_not_report(report: ServiceReport) -> None:
    assert values(service_metrics(None, NOW)) == {("tiresias_service_up",): 0}
    late = values(service_metrics(report, report["time"] + STALE_S + 1))
    assert (late["tiresias_service_up",], late["tiresias_service_report_age_seconds",]) == (0, STALE_S + 1)


def test_an_empty_service(report: ServiceReport) -> None:
    totals = {**report["totals"], "jobs": 0, "servers": 0, "ratio": None}
    empty: ServiceReport = {**report, "aggregators": [], "totals": totals}  # type: ignore[typeddict-item]
    found = values(service_metrics(empty, NOW))
    assert found["tiresias_service_aggregators", "running"] == 0
    assert not [name for name in found if name[0] in ("tiresias_service_ratio", "tiresias_service_load")]


def test_no_label_names_a_job_a_user_or_an_aggregator(example: ExampleService) -> None:
    report, jobs = example.shown()
    words = {
        str(value) for family in service_metrics(report, NOW) for one in family.samples for value in one.labels.values()
    }
    names = (
        {job["name"] for job in jobs}
        | {str(job["uid"]) for job in jobs}
        | {one["name"] for one in report["aggregators"]}
    )
    assert not words & names


def test_the_command_prints_them_where_a_service_is_configured(example: ExampleService, tmp_path: Path) -> None:
    ReportFolder(tmp_path / "report").write(*example.shown(time.time()))
    command = [*TIRESIAS, "--socket", str(tmp_path / "none.sock")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIRESIAS_")}
    printed = {}
    for folder in ("", str(tmp_path / "report")):
        env = environment | {"TIRESIAS_SERVICE_REPORT": folder}
        printed[folder] = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=60, check=True
        ).stdout
    without, with_service = printed.values()
    assert "tiresias_service" not in without
    assert "\ntiresias_service_up 1.0\n" in with_service
    assert "\ntiresias_service_budget 8.0\n" in with_service
    assert "\ntiresias_up 0.0\n" in with_service


def test_the_page_names_every_metric(report: ServiceReport) -> None:
    page = (Path(__file__).parents[3] / "docs/reference/metrics.md").read_text()
    assert [family.name for family in service_metrics(report, NOW) if family.name not in page] == []


def test_a_report_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"version": 9}))
    assert "\ntiresias_service_up 0.0\n" in text(tmp_path / "none.sock", service=tmp_path)
