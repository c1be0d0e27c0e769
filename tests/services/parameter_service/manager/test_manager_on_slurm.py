"""The manager as a process of a service account, on a real Slurm with munge: registration, kill -9, standby, budget."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.polling import pauses
from tiresias.sandbox.cluster import Cluster

HERE = "/opt/tiresias/tests/services/parameter_service/manager"
SERVICE, KEY = "tiresias", "ab" * 32
SCRIPT = """#!/bin/sh
umask 077
folder=/shared/service/aggregators/$1
mkdir -p $folder
cat > $folder/config.json <<END
{"listen": "127.0.0.1:0", "state": "$folder/state", "service_key_file": "/shared/service/key", "memory_mib": 64,
 "announce": "/shared/service/announce/$1.json"}
END
exec python3 -m tiresias.services.parameter_service.aggregator $folder/config.json
"""


class Service:
    """The folder of a service on a cluster, and its managers."""

    def __init__(self, cluster: Cluster, budget: int) -> None:
        self._cluster = cluster
        folder = cluster.shared / "service"
        for each in ("", "announce"):
            (folder / each).mkdir(exist_ok=True)
        (folder / "aggregator.sh").write_text(SCRIPT)
        (folder / "key").write_text("0f" * 32)
        (folder / "key").chmod(0o600)
        settings = {
            "service_key_file": "/shared/service/key",
            "manager": "m2", "state": "/shared/service/state", "listen": "127.0.0.1:0", "registration": "127.0.0.1:0",
            "publish": "/shared/service/published.json", "announce": "/shared/service/announce",
            "script": "/shared/service/aggregator.sh",
            "report": "/shared/service/report", "budget": budget, "lease_s": 2.0, "poll_s": 0.2, "period_s": 3600.0,
        }  # fmt: skip
        (folder / "manager.json").write_text(json.dumps(settings))
        cluster.run(["chown", "-R", SERVICE, "/shared/service"])
        self.published = folder / "published.json"
        self.managers: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        command = [
            "setpriv",
            "--pdeathsig",
            "TERM",
            "python3",
            "-m",
            "tiresias.services.parameter_service.manager",
            "/shared/service/manager.json",
        ]
        self.managers.append(self._cluster.popen(command, user=SERVICE, text=True))
        return self.managers[-1]

    def kill(self) -> None:
        """Send SIGKILL to the manager that leads."""
        self.signal("KILL")

    def signal(self, name: str) -> None:
        """Send a signal to the manager that leads."""
        pid = json.loads(self.published.read_text())["pid"]
        self._cluster.run(["kill", f"-{name}", str(pid)])

    def seen(self, user: str) -> dict[str, Any]:
        """What `tiresias services --json` prints for a user."""
        command = ["tiresias", "services", "--report", "/shared/service/report", "--json"]
        found: dict[str, Any] = json.loads(self._cluster.run(command, user=user).stdout)
        return found

    def examined(self) -> list[str]:
        """What `tiresias doctor` finds of the service."""
        config = self._cluster.shared / "service/tiresias.toml"
        config.write_text('service_report = "/shared/service/report"\n')
        command = ["tiresias", "doctor", "--config", "/shared/service/tiresias.toml", "--json"]
        done = self._cluster.run(command, user=SERVICE, check=False)
        return [each["words"] for each in json.loads(done.stdout) if each["about"] == "parameter service"]

    def place(self, job: str, servers: int, key: str = KEY, user: str = "alice") -> subprocess.CompletedProcess[str]:
        command = ["python3", f"{HERE}/register_and_place.py", "/shared/service/published.json", job, key, str(servers)]
        return self._cluster.run(command, user=user, check=False)

    def queued(self) -> dict[str, str]:
        lines = [
            line.split()
            for line in self._cluster.run(["squeue", "-h", "-u", SERVICE, "-o", "%j %A"]).stdout.splitlines()
        ]
        assert len(dict(lines)) == len(lines), "an aggregator is there twice"
        return dict(lines)


def managers_run(cluster: Cluster) -> bool:
    found = cluster.run(["pgrep", "-f", "tiresias.services.parameter_service.manager"], check=False)
    assert found.returncode in (0, 1), found.stderr
    return not found.returncode


@pytest.fixture
def service_of(cluster: Cluster) -> Iterator[Callable[[int], Service]]:
    made: list[Service] = []

    def make(budget: int) -> Service:
        made.append(Service(cluster, budget))
        return made[-1]

    yield make
    for service in made:
        for manager in service.managers:
            manager.send_signal(signal.SIGTERM)
            manager.wait(30)
        until(lambda: not managers_run(cluster), lambda: "managers do not end")
        cluster.run(["rm", "-rf", "/shared/service"])


def until(condition: Callable[[], bool], what: Callable[[], object], seconds: float = 60.0) -> None:
    began, pause = time.monotonic(), pauses()
    while not condition():
        assert time.monotonic() - began < seconds, what()
        pause()


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_kills_of_the_manager_leave_jobs_where_they_are(service_of: Callable[[int], Service]) -> None:
    service = service_of(3)
    service.start()
    until(service.published.exists, lambda: "the manager does not publish its address")
    first = service.place("a", 2)
    assert first.returncode == 0, first.stderr
    assert len(set(json.loads(first.stdout).values())) == 2
    queue = service.queued()
    assert sorted(queue) == ["tiresias-ps-m2-0", "tiresias-ps-m2-1"]
    standby = service.start()
    for _ in range(3):
        service.kill()
        again = service.place("a", 2)  # by the standby, which leads after the lease
        assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
        assert service.queued() == queue
        service.start()
    assert standby.poll() is not None, "the first standby has led and was killed"
    refused = [service.place("b", 2), service.place("a", 2, key="cd" * 32), service.place("a", 2, user="bob")]
    assert [each.returncode for each in refused] == [1, 1, 1]
    assert "budget" in refused[0].stderr or "are left" in refused[0].stderr
    assert "registered already" in refused[1].stderr
    assert "registered already" in refused[2].stderr
    assert service.queued() == queue


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_users_see_their_own_jobs_and_the_doctor_sees_the_aggregators(
    service_of: Callable[[int], Service], cluster: Cluster
) -> None:
    service = service_of(3)
    service.start()
    until(service.published.exists, lambda: "the manager does not publish its address")
    for job, servers, user in (("a", 2, "alice"), ("b", 1, "bob")):
        done = service.place(job, servers, user=user)
        assert done.returncode == 0, done.stderr
    report = cluster.shared / "service/report/report.json"
    until(lambda: json.loads(report.read_text())["totals"]["jobs"] == 2, report.read_text)
    seen = {user: [job["name"] for job in service.seen(user)["jobs"]] for user in ("alice", "bob", SERVICE, "root")}
    assert seen == {"alice": ["a"], "bob": ["b"], SERVICE: ["a", "b"], "root": ["a", "b"]}
    alice = service.seen("alice")
    assert (alice["sees_all"], alice["report"]["totals"]["servers"], alice["jobs"][0]["state"]) == (
        False,
        3,
        "profiled",
    )
    assert {each["slurm_job"] for each in alice["report"]["aggregators"]} == {
        int(job) for job in service.queued().values()
    }
    for file in ("jobs.json", "users/$(id -u bob).json"):
        refused = cluster.run(["sh", "-c", f"cat /shared/service/report/{file}"], user="alice", check=False)
        assert "Permission denied" in refused.stderr
    until(lambda: "its aggregators are those in Slurm (3)" in service.examined()[-1], service.examined)
    assert service.examined()[:2] == ["munge answers", "up to 3 aggregators, 3 of them in use"]
    service.signal("STOP")  # so that it does not cancel what it has not submitted
    try:
        submit = ["sbatch", "--parsable", "--job-name=tiresias-ps-m2-77", "--output=/dev/null", "--wrap", "sleep 1000"]
        stray = cluster.run(submit, user=SERVICE).stdout.strip()
        assert service.examined()[0] == f"aggregators in Slurm, but not reported: {stray} (tiresias-ps-m2-77)"
    finally:
        service.signal("CONT")
        service.managers[0].send_signal(signal.SIGCONT)  # nsenter stops with its child
    until(lambda: "tiresias-ps-m2-77" not in service.queued(), service.queued)
