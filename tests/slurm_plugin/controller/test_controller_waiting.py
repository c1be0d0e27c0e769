"""Pending jobs: blocked by Slurm, held by their owners, dependent jobs, arrays, and unmanaged jobs."""

from __future__ import annotations

import time
from functools import partial

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_kill import KILL_AT

pytestmark = pytest.mark.sandbox


def free(record: dict[str, str]) -> bool:
    """Return whether the job is neither held nor pinned."""
    return record["Priority"] != "0" and record["ReqNodeList"] == "(null)"


# -- obstacles ----------------------------------------------------------------------------------------------------------


def test_a_job_that_slurm_does_not_start_is_held_again_and_blocks_no_other(centre: Centre) -> None:
    centre.scontrol("update", "PartitionName=gpu", "MaxTime=5")
    try:
        long = centre.submit("--time=10", gpus=16)
        centre.wait_until(lambda: centre.reasons(long, "not started"), "it is not held again", long)
        assert "PartitionTimeLimit" in centre.reasons(long, "not started")[0]
        assert centre.show(long)["Priority"] == "0"
        short = centre.submit("--time=5", gpus=16, command="true", user="bob")
        centre.wait_for_state(short, "COMPLETED")
        assert centre.state(long) == "PENDING"
    finally:
        centre.scontrol("update", "PartitionName=gpu", "MaxTime=INFINITE")
    centre.wait_for_state(long, "RUNNING")


def test_reserved_nodes_are_not_used_for_other_jobs(centre: Centre) -> None:
    centre.scontrol(
        "create", "reservation", "ReservationName=bobs", "Users=bob", "Nodes=gpu01", "StartTime=now", "Duration=10"
    )
    try:
        centre.wait_until(lambda: "RESERVED" in centre.scontrol("show", "node", "gpu01"), "not reserved yet")
        jobs = [centre.submit(gpus=4) for _ in range(4)]
        for job in jobs[:3]:
            assert centre.wait_for_state(job, "RUNNING")["NodeList"] != "gpu01"
        guest = centre.submit("--reservation=bobs", gpus=4, user="bob", command="true")
        centre.wait_for_state(guest, "COMPLETED")
        assert centre.state(jobs[3]) == "PENDING"
        assert "error" in centre.explain(guest), "a job in a reservation is Slurm's"
    finally:
        centre.scontrol("delete", "ReservationName=bobs")
    assert centre.wait_for_state(jobs[3], "RUNNING")["NodeList"] == "gpu01"


def test_a_start_that_failed_is_tried_on_other_nodes(centre: Centre) -> None:
    """A reservation before the end of the job's time limit blocks a node that appears to be free."""
    first = centre.submit(gpus=4, command="true")
    node = centre.wait_for_state(first, "COMPLETED")["NodeList"]  # the node that placement selects
    centre.wait_until(
        lambda: centre.explain(first).get("job", {}).get("state") == "ENDED", "its GPUs are still reserved", first
    )
    centre.scontrol(
        "create",
        "reservation",
        "ReservationName=soon",
        "Users=bob",
        f"Nodes={node}",
        "StartTime=now+20minutes",
        "Duration=10",
    )
    try:
        job = centre.submit("--time=60", gpus=4)
        assert centre.wait_for_state(job, "RUNNING")["NodeList"] != node
        assert len(centre.reasons(job, "not started")) == 1
    finally:
        centre.scontrol("delete", "ReservationName=soon")


def test_a_node_that_slurm_plans_for_an_unmanaged_job_is_not_used(centre: Centre) -> None:
    """One component of a heterogeneous job is held: Slurm reserves a GPU for the other on a node that appears to be free."""
    parts = ("--gpus=1", "--ntasks=1", "--hold", ":", "--gpus=1", "--ntasks=1")
    foreign = centre.submit(*parts, gpus=0, user="bob")
    centre.scontrol("release", f"{foreign}+1")
    centre.wait_until(lambda: "PLANNED" in centre.scontrol("show", "node"), "nothing is planned", foreign)
    jobs = [centre.submit(gpus=4) for _ in range(4)]  # one more than there are other nodes
    centre.wait_until(
        lambda: [centre.show(job)["JobState"] for job in jobs].count("RUNNING") == 3,
        "the other nodes are not used",
        *jobs,
    )
    centre.wait_until(
        lambda: any("Priority" in why for job in jobs for why in centre.reasons(job, "not started")),
        "no start on the node that Slurm keeps", *jobs,
    )  # fmt: skip


def test_a_job_cancelled_while_slurm_does_not_start_it(centre: Centre) -> None:
    """The controller, which read the limits when it started, stops while it waits for the start: it would hold the job again once
    Slurm gives its reason."""
    centre.stop()
    centre.start(centre.configure()[0], ("python3", KILL_AT, "start", "confirm", "after"), env={"TEST_SIGNAL": "STOP"})
    centre.usual = False
    centre.scontrol("update", "PartitionName=gpu", "MaxTime=5")
    try:
        job = centre.submit("--time=10", gpus=16)
        centre.wait_until(centre.is_frozen, "it is not started", job)
        centre.cancel(job)
        centre.thaw()
        other = centre.submit("--time=5", gpus=16, user="bob")
        centre.wait_for_state(other, "RUNNING")
        centre.wait_until(lambda: centre.reasons(job, "ended"), "its start stays open", job)
    finally:
        centre.thaw()
        centre.scontrol("update", "PartitionName=gpu", "MaxTime=INFINITE")


# -- owners -------------------------------------------------------------------------------------------------------------


def test_holds_of_users_and_administrators_stay_until_they_lift_them(centre: Centre) -> None:
    users, admins = centre.submit("-H"), centre.submit("-H")
    centre.scontrol("hold", admins)  # in place of the user's
    centre.wait_for_cycles(3)
    assert (centre.show(users)["Reason"], centre.show(admins)["Reason"]) == ("JobHeldUser", "JobHeldAdmin")
    assert centre.explain(users)["job"]["state"] == "NOT COMPETING"
    centre.scontrol("release", users, user="alice")
    centre.scontrol("release", admins)
    centre.wait_for_state(users, "RUNNING")
    centre.wait_for_state(admins, "RUNNING")


def test_dependencies_and_begin_times_are_kept(centre: Centre) -> None:
    first = centre.submit(command="sleep 2")
    second = centre.submit(f"--dependency=afterok:{first}")
    never = centre.submit(f"--dependency=afternotok:{first}")
    asked = int(time.time())  # sbatch computes the moment from its own clock, Slurm the time of submission later
    later = centre.submit("--begin=now+6")
    ended, began = centre.wait_for_state(first, "COMPLETED"), centre.wait_for_state(second, "RUNNING")
    assert began["StartTime"] >= ended["EndTime"]
    record = centre.wait_for_state(later, "RUNNING")
    assert record["StartTime"] >= record["EligibleTime"]
    assert _epoch(record["EligibleTime"]) >= asked + 6
    assert centre.show(never)["Reason"].startswith("Dependency")


def test_an_update_of_a_waiting_job_applies(centre: Centre) -> None:
    """Here the job has run before, and was pinned to other nodes then."""
    large = centre.train(gpus=16, seconds=300)
    centre.wait_until_preemptable(large)
    twice = centre.train("--time=30", gpus=2, seconds=300, user="bob")
    centre.wait_until_preemptable(twice)
    blocker = centre.submit(gpus=16, user="bob")
    centre.wait_for_state(blocker, "RUNNING")
    own = {"ReqNodeList": "(null)", "ExcNodeList": "(null)"}
    centre.wait_until(
        lambda: own.items() <= centre.show(twice).items(), "a parked job has its own request again", twice
    )
    centre.scontrol("update", f"JobId={twice}", "NumNodes=2", user="bob")
    centre.cancel(large, user="alice")
    centre.cancel(blocker, user="bob")
    assert centre.wait_for_state(twice, "RUNNING")["NumNodes"] == "2"


def test_a_node_that_the_owner_excludes_while_the_job_is_started_there(centre: Centre) -> None:
    """Slurm then holds the job, because no node is left; the hold is not its owner's."""
    centre.restart(preemption={"start_timeout": 10.0})
    reasons: list[str] = []
    for _ in range(3):
        job, node = excluded_at_its_start(centre)
        assert centre.wait_for_state(job, "RUNNING")["NodeList"] != node
        reasons += centre.reasons(job, "not started")
        if any("BadConstraints" in reason for reason in reasons):
            break
        centre.cancel(job)
    else:
        pytest.fail(f"Slurm never reported BadConstraints: {reasons}")


def excluded_at_its_start(centre: Centre) -> tuple[str, str]:
    """Submit a job that its partition's limit keeps from starting, exclude its node, then remove the limit. Return job and node.

    The controller is stopped meanwhile; it may have seen the limit before, and ends the start for that reason.
    """
    centre.scontrol("update", "PartitionName=gpu", "MaxTime=5")
    try:
        job = centre.submit("--time=10")
        centre.wait_until(lambda: centre.show(job)["ReqNodeList"] != "(null)", "it is not started", job)
        centre.freeze()
        node = centre.show(job)["ReqNodeList"]
        centre.scontrol("update", f"JobId={job}", f"ExcNodeList={node}", user="alice")
    finally:
        centre.scontrol("update", "PartitionName=gpu", "MaxTime=INFINITE")
        centre.thaw()
    return job, node


def test_a_job_cancelled_while_it_waits_has_ended(centre: Centre) -> None:
    centre.wait_for_state(centre.submit(gpus=16), "RUNNING")
    job = centre.submit()
    centre.wait_until(lambda: centre.show(job)["Priority"] == "0", "not held", job)
    centre.cancel(job)
    centre.wait_until(lambda: centre.explain(job)["job"]["state"] == "ENDED", "it is still there", job)
    assert not centre.published(job)


def test_a_job_that_its_owner_requeues_starts_again_at_once(centre: Centre) -> None:
    job = centre.submit(gpus=4)
    centre.wait_until(lambda: len(centre.explain(job).get("runs", ())) == 1, "its first run is not seen", job)
    centre.scontrol("requeue", job, user="alice")
    centre.wait_until(lambda: centre.show(job)["Restarts"] == "1" and centre.state(job) == "RUNNING", "not again", job)
    first, second = centre.wait_until(
        lambda: runs if len(runs := centre.explain(job)["runs"]) == 2 else [], "no second run", job
    )
    assert second["start"] - first["end"] < 30


# -- arrays -------------------------------------------------------------------------------------------------------------


def test_the_tasks_of_an_array_are_started_one_by_one_by_the_controller(centre: Centre) -> None:
    go_on = centre.cluster.shared / "out" / "go-on"
    go_on.unlink(missing_ok=True)
    until_file = f"until [ -e /shared/out/{go_on.name} ]; do sleep 0.2; done"
    array = centre.submit("--array=0-3", "--output=/dev/null", gpus=8, command=until_file)
    tasks = [f"{array}_{task}" for task in range(4)]
    centre.wait_for_state(tasks[0], "RUNNING")
    centre.wait_for_state(tasks[1], "RUNNING")
    centre.wait_until(lambda: centre.published(tasks[2]).get("state") == "WAITING", "the third does not wait", *tasks)
    centre.cancel(tasks[3])
    go_on.touch()
    centre.wait_for_state(tasks[2], "COMPLETED")
    assert [len(centre.reasons(task, "start")) for task in tasks] == [1, 1, 1, 0]
    ran = [1, 1, 1, 0]  # an ended run is read once Slurm shows its end
    centre.wait_until(lambda: [len(centre.explain(task)["runs"]) for task in tasks] == ran, "a run is missing", *tasks)
    assert centre.state(tasks[3]) in ("CANCELLED", "")


# -- unmanaged -----------------------------------------------------------------------------------------------------------


def test_unmanaged_jobs_are_never_changed(centre: Centre) -> None:
    centre.wait_for_state(centre.submit(gpus=16), "RUNNING")
    managed = centre.submit()
    foreign = [centre.submit("-p", "other"), centre.submit("-p", "gpu,other"), _het(centre)]
    cpus = centre.submit(gpus=0)
    centre.wait_until(lambda: centre.show(managed)["Priority"] == "0", "not held", managed)
    centre.wait_for_cycles(3)
    for job in [*foreign, cpus]:
        assert free(centre.show(job)), centre.show(job)
        assert "error" in centre.explain(job)
    assert centre.state(cpus) == "RUNNING"


def test_an_exclusive_job_without_gres_stays_slurms_while_it_holds_gpus(centre: Centre) -> None:
    job = centre.submit("--exclusive", "--nodes=1", gpus=0)
    centre.wait_for_state(job, "RUNNING")
    centre.wait_for_cycles(3)
    assert not centre.published(job)
    assert "it asks for no GPU" in centre.explain(job)["error"]


def test_an_exclusive_job_starts_at_once_on_an_idle_node(centre: Centre) -> None:
    """It requests one GPU, and Slurm starts it on no node with other jobs."""
    small = centre.submit("--nodelist=gpu02", gpus=1)
    centre.wait_for_state(small, "RUNNING")
    job = centre.submit("--exclusive", gpus=1)
    centre.wait_for_state(job, "RUNNING")
    assert centre.show(job)["NodeList"] != "gpu02"
    assert [
        word for line in centre.log() if f"job {job}: " in line for word in ("not started", "not on") if word in line
    ] == []


def test_a_job_that_moves_to_an_unmanaged_partition_is_released(centre: Centre) -> None:
    centre.wait_for_state(centre.submit("--nodelist=gpu01", gpus=4), "RUNNING")
    job = centre.submit("--nodelist=gpu01", gpus=4)
    centre.wait_until(lambda: centre.show(job)["Priority"] == "0", "not held", job)
    command = ["scontrol", "update", f"JobId={job}", "Partition=other"]
    move = partial(centre.cluster.run, command, user="slurm", check=False)
    centre.wait_until(lambda: move().returncode == 0, "Slurm does not move it", job)  # the answer is EAGAIN at times
    centre.wait_until(lambda: centre.show(job)["Priority"] != "0", "it stays held", job)
    centre.wait_for_cycles(2)
    assert centre.show(job)["Priority"] != "0"


def _het(centre: Centre) -> str:
    words = [
        "sbatch",
        "--parsable",
        "--gpus=1",
        "--output=/dev/null",
        "--chdir=/tmp",
        "--wrap",
        "sleep 300",
        ":",
        "--gpus=1",
    ]
    wrapped = [*words[:5], ":", "--gpus=1", *words[5:7]]
    return centre.cluster.run(wrapped, user="alice").stdout.strip()


def _epoch(stamp: str) -> float:
    return time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S"))


def test_a_request_that_can_never_fit_is_reported_at_once(centre: Centre) -> None:
    """Slurm refuses some requests at submission; for those that it accepts the controller reports it."""
    for words in (
        ["--gpus=100"],
        ["--gpus-per-node=8", "--nodes=1"],
        ["--gpus=a100:2"],
        ["--gpus=2", "--exclude=gpu0[1-4]"],
    ):
        done = centre.cluster.run(["tsbatch", *words, "--wrap", "true"], user="alice", cwd="/tmp", check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.strip().endswith("Requested node configuration is not available")
    wide = centre.submit("--nodes=9", "--gpus-per-node=1", gpus=0)
    centre.wait_until(lambda: centre.published(wide), "not seen", wide)
    assert centre.why(wide) == "can never run here: no nodes of the managed partitions fit what it asks for"
