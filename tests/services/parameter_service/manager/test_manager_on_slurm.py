"""The manager as a process of a service account, on a real Slurm with munge: registration, kill -9, standby, budget, report."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from tests.services.parameter_service.service_on_slurm import SERVICE, Service, until
from tiresias.sandbox.cluster import Cluster


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_kills_of_the_manager_leave_jobs_where_they_are(service_of: Callable[..., Service]) -> None:
    service = service_of(3, protect="mac")
    service.lead()
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
    service_of: Callable[..., Service], cluster: Cluster
) -> None:
    service = service_of(3)
    service.lead()
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


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_no_user_reserves_the_whole_budget(service_of: Callable[..., Service], cluster: Cluster) -> None:
    service = service_of(4, per_user={"aggregators": 0.5, "jobs": 2, "bytes": 3000})
    service.lead()
    assert service.place("a", 1).returncode == 0
    assert service.register("b", 1).returncode == 0
    alice = cluster.run(["id", "-u", "alice"]).stdout.strip()
    refused = [
        service.register("c", 2),
        service.register("c", 3),
        service.place("b", 1),
        service.register("d", 5, user="bob"),
    ]
    texts = [each.stderr.strip().removeprefix("the parameter service refuses: ") for each in refused]
    assert texts == [
        f"per_user: user {alice} may use 2 aggregators: 2 are used, and this job needs 2",
        f"per_user: user {alice} may use 2 aggregators; this job declares 3 servers",
        f"per_user: user {alice} may have tensors of 3000 bytes: 2000 are used, and this job needs 2000",
        "the service has 4 aggregators at most; this job declares 5 servers",
    ], texts
    assert service.register("e", 2, user="bob").returncode == 0
    limits = service.seen("bob")["report"]["limits"]
    assert limits == {
        "user": {"aggregators": 2.0, "jobs": 2, "bytes": 3000},
        "account": {"aggregators": None, "jobs": None, "bytes": None},
    }
    assert service.place("e", 2, user="bob").returncode == 0
    assert len(service.queued()) == 4
