"""The controller as its own user: operations with AdminLevel=Operator, and its answers to other users under PrivateData."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
GPUS = 16  # of the cluster


@pytest.fixture
def accounted(centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """A cluster with accounting, so that there are Operators, and with PrivateData."""
    centre = centre_of("forky", accounting=True, settings={"PrivateData": "jobs,usage"})
    centre.ready()
    yield centre
    centre.clean()


def owner(accounted: Centre, path: str) -> str:
    """Return the owner and the mode of a file."""
    return str(accounted.cluster.run(["stat", "-c", "%U %a", path]).stdout.strip())


def test_an_operator_can_do_all_that_the_controller_does(accounted: Centre) -> None:
    """It holds, pins, releases, signals, requeues and unpins jobs of two other users."""
    assert accounted.cluster.run(["ps", "-o", "user=", "-C", "python3"]).stdout.split()[0] == "tiresias"
    alices = accounted.train(gpus=GPUS)
    accounted.wait_until_preemptable(alices)
    bobs = accounted.train(gpus=GPUS, user="bob", seconds=4.0)
    accounted.wait_for_state(bobs, "COMPLETED")

    def is_back() -> bool:
        return accounted.show(alices)["Restarts"] == "1" and accounted.state(alices) == "RUNNING"

    accounted.wait_until(is_back, "not back", alices)
    assert accounted.reasons(alices, "parked")
    assert not accounted.reasons(alices, "refused") + accounted.reasons(bobs, "refused")
    accounted.cancel(alices)
    never_preempted = accounted.submit(gpus=GPUS, command="sleep 300")
    accounted.wait_for_state(never_preempted, "RUNNING")
    waits = accounted.train(gpus=GPUS, user="bob")
    accounted.wait_until(lambda: accounted.show(waits).get("Reason") == "JobHeldAdmin", "it is not held", waits)
    accounted.usual = False
    assert accounted.stop() == 0
    assert accounted.show(waits)["Priority"] != "0", "a hold remains"


OPERATIONS = """
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


def test_an_operator_may_run_all_operations_by_the_commands(accounted: Centre) -> None:
    """All operations of the back end, in a partition that the controller does not manage."""
    alices = accounted.submit("--partition=other", command="trap '' USR2; while :; do sleep 1; done")
    accounted.wait_for_state(alices, "RUNNING")
    assert (
        accounted.cluster.run(["python3", "-c", OPERATIONS, alices], user="tiresias", timeout=120).stdout.strip()
        == "()"
    )
    reported = accounted.cluster.run(["python3", "-c", OPERATIONS, alices], user="bob", check=False)
    assert "JobRefused" in reported.stderr, "users without the right are refused"


def test_the_state_folder_is_private_to_the_controller(accounted: Centre) -> None:
    state = (
        (accounted.cluster.shared / accounted.config.rpartition("/")[2])
        .read_text()
        .partition("state = '")[2]
        .partition("'")[0]
    )
    assert owner(accounted, state) == "tiresias 700"
    assert owner(accounted, f"{state}/journal.sqlite") == "tiresias 600"
    assert owner(accounted, "/run/tiresias").split()[0] == "tiresias"


def test_without_the_right_it_reports_so_in_one_line(accounted: Centre) -> None:
    accounted.usual = False
    accounted.stop()
    accounted.cluster.run(["sacctmgr", "-i", "modify", "user", "tiresias", "set", "adminlevel=none"])
    try:
        done = accounted.command("controller", "--config", accounted.configure()[0])
        assert done.returncode == 1
        last = done.stderr.splitlines()
        assert len(last) == 1, done.stderr
        assert "sacctmgr modify user tiresias set adminlevel=operator" in last[0]
        watching = accounted.command("controller", "--once", "--mode", "shadow", "--config", accounted.configure()[0])
        assert watching.returncode == 0, watching.stderr
    finally:
        accounted.cluster.run(["sacctmgr", "-i", "modify", "user", "tiresias", "set", "adminlevel=operator"])


@pytest.mark.parametrize("order", [["pause"], ["resume"], ["stop"], ["stop", "--release"]])
def test_a_user_may_not_send_orders(accounted: Centre, order: list[str]) -> None:
    done = accounted.cluster.run(
        ["tiresias", *order, "--config", accounted.config],
        user="alice",
        check=False,
        env={"TIRESIAS_PATHS_RUN": "/run/tiresias"},
    )
    assert done.returncode, done.stdout
    assert "refused" in done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr
    accounted.wait_for_cycles(1)
    assert not accounted.status().get("paused")


def seen(accounted: Centre, user: str) -> dict[str, Any]:
    done = accounted.cluster.run(["tiresias", "status", "--json", "--socket", "/run/tiresias/control.sock"], user=user)
    return dict(json.loads(done.stdout))


def explained(accounted: Centre, user: str, job: str) -> tuple[int, str]:
    words = ["tiresias", "explain", job, "--json", "--socket", "/run/tiresias/control.sock"]
    done = accounted.cluster.run(words, user=user, check=False)
    return done.returncode, done.stdout + done.stderr


def history(accounted: Centre, user: str, *words: str) -> Any:
    command = ["tiresias", "history", "--json", "--socket", "/run/tiresias/control.sock"]
    return accounted.cluster.run([*command, *words], user=user, check=False)


def test_a_user_sees_only_what_private_data_permits(accounted: Centre) -> None:
    alices = accounted.train("--job-name=unicorn", gpus=2)
    bobs = accounted.train("--job-name=dragon", gpus=3, user="bob")
    accounted.wait_until_preemptable(alices)
    accounted.wait_until_preemptable(bobs)
    assert accounted.cluster.run(["squeue", "-h", "-o", "%j"], user="bob").stdout.split() == ["dragon"], "as Slurm does"
    for user in ("root", "tiresias", "slurm"):
        assert {"unicorn", "dragon"} <= {job["name"] for job in seen(accounted, user)["jobs"]}
        assert explained(accounted, user, alices)[0] == 0
    for user, own, other, secret in (("bob", bobs, alices, "unicorn"), ("alice", alices, bobs, "dragon")):
        status = seen(accounted, user)
        assert [job["id"] for job in status["jobs"]] == [own]
        assert {one["job"] for one in status["decisions"]} <= {own}
        assert secret not in json.dumps(status)
        assert sum(node["other_gpus"] for node in status["nodes"]) == (2 if user == "bob" else 3)
        assert {job for node in status["nodes"] for job, _ in node["allocations"]} == {own}
        assert explained(accounted, user, own)[0] == 0
        assert {job["user"] for job in json.loads(history(accounted, user, "--by", "job").stdout)["jobs"]} == {user}
        assert (history(accounted, user, own).returncode, history(accounted, user, other).returncode) == (0, 1)
        unknown = explained(accounted, user, "99999999")[1].replace("99999999", "N")
        assert explained(accounted, user, other) == (1, unknown.replace("N", other)), (
            "the answer must not reveal whether the job exists"
        )
