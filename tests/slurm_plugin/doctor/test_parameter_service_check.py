"""The doctor's findings on the parameter service; test_manager_on_slurm.py has a real one."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conftest import ClusterOf
from tests.example_service import ExampleService
from tiresias.protocol.service_report import ServiceReport
from tiresias.services.parameter_service.manager.report_folder import ReportFolder
from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.doctor import parameter_service_check as check
from tiresias.slurm_plugin.doctor.service_configuration_check import configuration_findings

PARTITIONS = "PartitionName=cpu State=UP\nPartitionName=gpu State=UP\n"


@pytest.fixture
def report(tmp_path: Path) -> Iterator[ServiceReport]:
    example = ExampleService(tmp_path / "state")
    yield example.shown()[0]
    example.close()


def queue_of(report: ServiceReport) -> dict[int, str]:
    return {
        each["slurm_job"]: each["name"] for each in report["aggregators"] if each["state"] in ("running", "waiting")
    }


def changed(report: ServiceReport, **changes: Any) -> ServiceReport:
    return cast(ServiceReport, {**report, **changes})


def test_no_service_is_no_finding() -> None:
    assert [*check.findings("", {})] == []


def test_no_report_is_a_risk(tmp_path: Path) -> None:
    found = [*check.findings(str(tmp_path), {})]
    assert (found[-1].level, found[-1].about) == (Level.RISK, "parameter service")
    assert found[-1].words.startswith(f"no report in {tmp_path}")


def test_munge_that_is_not_there_is_a_risk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = check.munge()
    assert (found.level, found.words) == (
        Level.RISK,
        "jobs cannot register: cannot run munge: No such file or directory",
    )


def test_munge_that_refuses_is_a_risk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program named munge that fails as munge does without its daemon."""
    words = 'munge: Error: Failed to access "/run/munge/munge.socket.2": No such file or directory'
    (tmp_path / "munge").write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 6\n")
    (tmp_path / "munge").chmod(0o755)
    (tmp_path / "unmunge").symlink_to(tmp_path / "munge")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert check.munge().words == f"jobs cannot register: {words}"


def test_budget(report: ServiceReport) -> None:
    assert check.budget(report).words == "up to 8 aggregators, 6 of them in use"
    assert check.budget(changed(report, budget=0)).level is Level.RISK


@pytest.mark.parametrize(
    ("name", "level", "words"),
    [
        ("cpu", Level.FINE, "partition cpu exists"),
        ("", Level.FINE, "aggregators run in Slurm's default partition"),
        ("cp", Level.RISK, "partition cp is not in slurm.conf: no aggregator starts"),
    ],
)
def test_partition(name: str, level: Level, words: str) -> None:
    found = check.partition(name, PARTITIONS)
    assert (found.level, found.words) == (level, words)
    assert (found.remedy == "partition: any of cpu, gpu") is (level is Level.RISK)


def test_account() -> None:
    assert check.account("service", "tiresias", {"root", "service"}).level is Level.FINE
    found = check.account("service", "tiresias", {"root"})
    assert (found.level, found.remedy) == (Level.RISK, "sacctmgr add user tiresias account=service")


def test_aggregators_that_are_those_in_slurm(report: ServiceReport) -> None:
    found = check.differences(report, queue_of(report), report)
    assert (found.level, found.words) == (Level.FINE, "the manager reports; its aggregators are those in Slurm (4)")


def test_aggregators_that_differ(report: ServiceReport) -> None:
    queue = queue_of(report)
    lost, _ = queue.popitem()
    found = check.differences(report, {**queue, 99: "tiresias-ps-ps1-9"}, report)
    assert found.level is Level.RISK
    assert (
        found.words
        == f"aggregators reported, but not in Slurm: {lost}; in Slurm, but not reported: 99 (tiresias-ps-ps1-9)"
    )


def test_what_changes_between_the_reports_is_no_difference(report: ServiceReport) -> None:
    fewer = changed(report, aggregators=report["aggregators"][1:])
    ending = changed(report, aggregators=[{**each, "state": "ending"} for each in report["aggregators"]])
    every, without_first = queue_of(report), queue_of(fewer)
    for before, queue, after in (
        (report, without_first, fewer),
        (fewer, every, report),
        (report, {}, ending),
    ):
        assert check.differences(before, queue, after).level is Level.FINE
    assert check.differences(fewer, every, fewer).level is Level.RISK


@pytest.mark.sandbox
@pytest.mark.slow
def test_the_account_of_the_aggregators_is_one_of_slurmdbd(cluster_of: ClusterOf, report: ServiceReport) -> None:
    cluster = cluster_of(accounting=True)
    folder = cluster.shared / "service-report"
    config = cluster.shared / "service.toml"
    config.write_text('service_report = "/shared/service-report"\n')
    words = {}
    for name in ("root", "unknown"):
        ReportFolder(folder).write(changed(report, uid=0, account=name, time=time.time(), aggregators=[]), [])
        command = ["tiresias", "doctor", "--config", "/shared/service.toml", "--json"]
        found = json.loads(cluster.run(command, check=False).stdout)
        words[name] = {each["words"] for each in found if each["about"] == "parameter service"}
    assert "user root may use account root" in words["root"]
    assert "user root has no account unknown in Slurm: no aggregator starts" in words["unknown"]
    assert "partition cpu is not in slurm.conf: no aggregator starts" in words["root"]
    assert "the manager reports; its aggregators are those in Slurm (0)" in words["root"]


def test_what_the_configuration_names_and_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "manager.json"

    def words() -> list[str]:
        return [found.words for found in configuration_findings(file)]

    assert words() == [], "no manager on this host"
    paths = {key: tmp_path / key for key in ("script", "service_key_file", "announce")}
    file.write_text(json.dumps({key: str(path) for key, path in paths.items()}))
    assert words() == [f"{file}: {key}: {path} is missing" for key, path in paths.items()]
    for key in ("script", "service_key_file", "announce"):
        paths[key].touch(mode=0o644)
    key_file = paths["service_key_file"]
    assert words() == [
        f"{file}: service_key_file: {key_file} has mode 0644; it needs 0600",
        f"{file}: announce: {paths['announce']} is no folder",
    ]
    key_file.chmod(0o600)
    paths["announce"].unlink()
    paths["announce"].mkdir()
    assert words() == []
    for content in ("{", "[]", "{}", '{"script": 3}'):
        file.write_text(content)
        (problem,) = words()
        assert problem.startswith(f"{file} cannot be read")
