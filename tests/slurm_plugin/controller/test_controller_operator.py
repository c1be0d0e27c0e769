"""The controller as a user of its own: what AdminLevel=Operator lets it do, and what PrivateData lets others see of its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
GPUS = 16  # all there are


@pytest.fixture
def office(centre_of: Callable[..., Any]) -> Iterator[Any]:
    """With accounting, so that there are Operators, and with secrets."""
    centre = centre_of("forky", accounting=True, settings={"PrivateData": "jobs,usage"})
    centre.ready()
    yield centre
    centre.clean()


def owner(office: Any, path: str) -> str:
    """Its user and mode."""
    return str(office.cluster.run(["stat", "-c", "%U %a", path]).stdout.strip())


def test_an_operator_can_do_all_that_the_controller_does(office: Any) -> None:
    """Hold, pin, release, signal, requeue, unpin and let go, of the jobs of two other users."""
    assert office.cluster.run(["ps", "-o", "user=", "-C", "python3"]).stdout.split()[0] == "tiresias"
    hers = office.train(gpus=GPUS)
    office.trains(hers)
    own_folder = office.train(gpus=GPUS, user="bob", seconds=4.0)
    office.reaches(own_folder, "COMPLETED")
    office.until(lambda: office.show(hers)["Restarts"] == "1" and office.state(hers) == "RUNNING", "not back", hers)
    assert office.said(hers, "parked")
    assert not office.said(hers, "refused") + office.said(own_folder, "refused")
    waits = office.train(gpus=GPUS, user="bob")
    office.until(lambda: office.show(waits).get("Reason") == "JobHeldAdmin", "it is not held", waits)
    office.usual = False
    assert office.stop() == 0
    assert office.show(waits)["Priority"] != "0", "a hold is left"


VERBS = """
import sys, time
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.interface import RequestChange
job, slurm = sys.argv[1], CommandsBackend()
def until(ready):
    end = time.monotonic() + 40
    while not ready(slurm.job(job)):
        assert time.monotonic() < end, slurm.job(job)
        time.sleep(0.1)
slurm.hold(job)
slurm.signal(job, "USR2")
slurm.requeue(job)
until(lambda one: one.state == "PENDING" and not one.completing and one.priority == 0)
time.sleep(2)
slurm.pin(job, RequestChange(nodes=(1, 1), required=("gpu03",)))
slurm.lift(job)
until(lambda one: one.state == "RUNNING" and one.shares and one.shares[0].node == "gpu03")
slurm.hold(job)
slurm.release(job)
slurm.requeue(job)
slurm.hold(job)
until(lambda one: one.state == "PENDING" and not one.completing)
slurm.unpin(job, RequestChange(nodes=(1, 0), required=()))
print(slurm.job(job).required_nodes)
"""


def test_an_operator_needs_no_more_for_the_commands(office: Any) -> None:
    """Where the controller itself keeps its hands off: in a partition that it does not manage."""
    hers = office.submit("--partition=other", command="trap '' USR2; while :; do sleep 1; done")
    office.reaches(hers, "RUNNING")
    assert office.cluster.run(["python3", "-c", VERBS, hers], user="tiresias", timeout=120).stdout.strip() == "()"
    reported = office.cluster.run(["python3", "-c", VERBS, hers], user="bob", check=False)
    assert "JobRefused" in reported.stderr, "whoever has not the right is refused"


def test_its_state_is_its_own(office: Any) -> None:
    state = (
        (office.cluster.shared / office.config.rpartition("/")[2])
        .read_text()
        .partition("state = '")[2]
        .partition("'")[0]
    )
    assert owner(office, state) == "tiresias 700"
    assert owner(office, f"{state}/journal.sqlite") == "tiresias 600"
    assert owner(office, "/run/tiresias").split()[0] == "tiresias"


def test_without_the_right_it_says_so_in_one_line(office: Any) -> None:
    office.usual = False
    office.stop()
    office.cluster.run(["sacctmgr", "-i", "modify", "user", "tiresias", "set", "adminlevel=none"])
    try:
        done = office.command("controller", "--config", office.configure()[0])
        assert done.returncode == 1
        last = done.stderr.splitlines()
        assert len(last) == 1, done.stderr
        assert "sacctmgr modify user tiresias set adminlevel=operator" in last[0]
        watching = office.command("controller", "--once", "--mode", "shadow", "--config", office.configure()[0])
        assert watching.returncode == 0, watching.stderr
    finally:
        office.cluster.run(["sacctmgr", "-i", "modify", "user", "tiresias", "set", "adminlevel=operator"])


@pytest.mark.parametrize("order", [["pause"], ["resume"], ["stop"], ["stop", "--release"]])
def test_a_user_orders_nothing(office: Any, order: list[str]) -> None:
    done = office.cluster.run(
        ["tiresias", *order, "--config", office.config],
        user="alice",
        check=False,
        env={"TIRESIAS_PATHS_RUN": "/run/tiresias"},
    )
    assert done.returncode, done.stdout
    assert "refused" in done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr
    office.cycles(1)
    assert not office.status().get("paused")


def seen(office: Any, user: str) -> dict[str, Any]:
    done = office.cluster.run(["tiresias", "status", "--json", "--socket", "/run/tiresias/control.sock"], user=user)
    return dict(json.loads(done.stdout))


def explained(office: Any, user: str, job: str) -> tuple[int, str]:
    words = ["tiresias", "explain", job, "--json", "--socket", "/run/tiresias/control.sock"]
    done = office.cluster.run(words, user=user, check=False)
    return done.returncode, done.stdout + done.stderr


def recalled(office: Any, user: str, *words: str) -> Any:
    command = ["tiresias", "history", "--json", "--socket", "/run/tiresias/control.sock"]
    return office.cluster.run([*command, *words], user=user, check=False)


def test_a_user_sees_what_private_data_leaves(office: Any) -> None:
    hers = office.train("--job-name=unicorn", gpus=2)
    own_folder = office.train("--job-name=dragon", gpus=3, user="bob")
    office.trains(hers)
    office.trains(own_folder)
    assert office.cluster.run(["squeue", "-h", "-o", "%j"], user="bob").stdout.split() == ["dragon"], "as Slurm does"
    for user in ("root", "tiresias", "slurm"):
        assert {"unicorn", "dragon"} <= {job["name"] for job in seen(office, user)["jobs"]}
        assert explained(office, user, hers)[0] == 0
    for user, own, other, secret in (("bob", own_folder, hers, "unicorn"), ("alice", hers, own_folder, "dragon")):
        status = seen(office, user)
        assert [job["id"] for job in status["jobs"]] == [own]
        assert {one["job"] for one in status["decisions"]} <= {own}
        assert secret not in json.dumps(status)
        assert sum(node["other_gpus"] for node in status["nodes"]) == (2 if user == "bob" else 3)
        assert {job for node in status["nodes"] for job, _ in node["allocations"]} == {own}
        assert explained(office, user, own)[0] == 0
        assert {job["user"] for job in json.loads(recalled(office, user, "--by", "job").stdout)["jobs"]} == {user}
        assert (recalled(office, user, own).returncode, recalled(office, user, other).returncode) == (0, 1)
        unknown = explained(office, user, "99999999")[1].replace("99999999", "N")
        assert explained(office, user, other) == (1, unknown.replace("N", other)), (
            "it even says whether the job is there"
        )
