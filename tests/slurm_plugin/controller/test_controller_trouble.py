"""Failures: the controller stops or is killed, slurmctld is down, a node is down; and wrong input."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_kill import KILL_AT

pytestmark = pytest.mark.sandbox
FAILING_ADAPTIVE = (
    "/opt/tiresias/tests/slurm_plugin/controller/failing_adaptive.py"  # the checkout, as the cluster sees it
)
HOSTILE = [
    "two\nlines",
    "\x1b[31mred\x1b[2J",
    "[bold red]markup[/]",
    "'\"`$(id);&|<>\\",
    "a=b JobId=1 Priority=0 | % {}",
    "name\ttab\r",
    "x" * 1000,
    "\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH SPACE}\N{PILE OF POO}",
]


def request(record: dict[str, str]) -> tuple[str, str, bool]:
    """Return -w, the maximum number of nodes (Slurm itself raises the minimum), and whether the job is not held."""
    return record["ReqNodeList"], record["NumNodes"].split("-")[-1], record["Priority"] != "0"


def as_submitted(centre: Centre, gpus: int, *options: str) -> tuple[str, str, bool]:
    """Return the request of a job that was never managed."""
    twin = centre.submit("-H", *options, gpus=gpus)
    found = request(centre.show(twin))
    centre.cancel(twin)
    return *found[:2], True


def test_after_a_failure_that_no_single_job_explains_las_decides(centre: Centre) -> None:
    centre.stop()
    centre.usual = False
    centre.start(centre.configure(policy={"name": "adaptive"})[0], program=("python3", FAILING_ADAPTIVE))
    first = centre.submit(gpus=8)
    centre.wait_for_state(first, "RUNNING")
    assert centre.status()["alarms"] == []
    second, waits = centre.submit(gpus=8), centre.submit(gpus=16)
    centre.wait_for_state(second, "RUNNING")
    centre.wait_until(lambda: "policy adaptive failed, las ranks" in centre.why(waits), "explain is silent", waits)
    (alarm,) = centre.status()["alarms"]
    assert "policy adaptive: a decision failed with IndexError: list index out of range; report this" in alarm
    assert (centre.state(first), centre.show(first)["Restarts"]) == ("RUNNING", "0")
    assert any("Traceback" in line for line in centre.log())


# -- fail open ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [pytest.param("TERM", marks=pytest.mark.long), "KILL"])
def test_slurm_schedules_alone_when_the_controller_has_ended(centre: Centre, end: str) -> None:
    filler = centre.train(gpus=16, seconds=6, until_preempted=True)
    centre.wait_until_preemptable(filler)
    waiting = [centre.submit(gpus=8, command="sleep 1", user="bob") for _ in range(3)]
    # It was preempted, so it is held and was pinned before.
    centre.wait_until(
        lambda: centre.show(filler)["Restarts"] == "1" and centre.state(filler) == "PENDING", "stays", filler
    )
    foreign = centre.submit("-H", user="bob")
    centre.scontrol("hold", foreign)
    centre.usual = False
    code = centre.stop(end)
    if end == "KILL":
        done = centre.command("controller", "--config", centre.config, "--release")
        assert done.returncode == 0, done.stderr
    else:
        assert code == 0
    now = centre.cluster.run(["date", "+%FT%T"]).stdout
    for job in (filler, *waiting):
        record = centre.show(job)
        assert record["Priority"] != "0", record
        eligible = record["EligibleTime"]  # Unknown: Slurm has not scheduled since
        assert eligible == "Unknown" or eligible <= now, (
            f"it waits for the begin time that job_submit.lua set: {record}"
        )
        if record["JobState"] == "PENDING":
            assert request(record) == as_submitted(centre, 16 if job == filler else 8)
    assert centre.show(foreign)["Reason"] == "JobHeldAdmin"
    for job in (filler, *waiting):
        centre.wait_for_state(job, "COMPLETED")


def test_a_job_released_but_not_yet_started_loses_its_pin_too(centre: Centre) -> None:
    centre.scontrol("update", "PartitionName=gpu", "MaxTime=5")
    try:
        job = centre.submit("--time=10", gpus=2)
        centre.wait_until(lambda: centre.published(job).get("phase") == "starting", "not started", job)
        centre.usual = False
        centre.stop()
        assert request(centre.show(job)) == as_submitted(centre, 2, "--time=10")
    finally:
        centre.scontrol("update", "PartitionName=gpu", "MaxTime=INFINITE")
    centre.wait_for_state(job, "RUNNING")


def test_jobs_are_submitted_and_run_without_a_controller(centre: Centre) -> None:
    centre.stop()
    jobs = [centre.submit(command="true"), centre.train(seconds=0.2), centre.submit(command="true", by="tsbatch")]
    for job in jobs:
        centre.wait_for_state(job, "COMPLETED", seconds=30)


# -- Slurm goes away ----------------------------------------------------------------------------------------------------


def test_slurmctld_restarts_in_the_middle_of_a_preemption(centre: Centre) -> None:
    large, small = _saving(centre)
    centre.cluster.restart_slurmctld()
    _both_end(centre, large, small)


def test_slurmctld_is_down_while_a_job_parks(centre: Centre) -> None:
    large, small = _saving(centre)
    uid = centre.cluster.rootfs.uid("alice")
    report = centre.cluster.shared / "tiresias/control" / str(uid) / large / "supervisor.json"
    logged = len(centre.log())
    centre.cluster.kill_slurmctld("TERM")  # after a SIGKILL Slurm itself may have lost its newest jobs
    try:
        centre.wait_until(
            lambda: (
                json.loads(report.read_text())["state"] == "parked"
                and sum("trying again" in line for line in centre.log()[logged:]) >= 1
            ),
            "the job does not park, or the controller does not notice",
        )
        assert centre.status(), "status requests are answered nevertheless"
    finally:
        centre.cluster.start_slurmctld()
    _both_end(centre, large, small)


def test_a_killed_slurmctld_forgets_the_requeue_of_a_preempted_job(centre: Centre) -> None:
    """It shows the run that has ended. Slurm itself finds that out once the node registers, in up to two minutes."""
    centre.stop()
    centre.start(centre.configure()[0], ("python3", KILL_AT, "preempt", "drain", "before"), env={"TEST_SIGNAL": "STOP"})
    centre.usual = False
    large = centre.train(gpus=16, seconds=4, habit="slow", until_preempted=True)
    centre.wait_until_preemptable(large)
    small = centre.submit("-H", command="sleep 1", user="bob")
    state = centre.cluster.folder / "spool/ctld/job_state"
    before, log = _saved(centre, state), centre.cluster.log / "slurmctld.log"
    centre.scontrol("release", small, user="bob")
    centre.wait_until(centre.is_frozen, "it is not preempted", large, small)
    centre.wait_until(lambda: centre.show(large).get("Restarts") == "1", "it is not requeued", large)
    centre.wait_for_state(large, "PENDING")
    centre.cluster.kill_slurmctld("KILL")
    state.write_bytes(before)
    logged = log.stat().st_size
    centre.cluster.start_slurmctld()
    assert (centre.state(large), centre.show(large)["Restarts"]) == ("RUNNING", "0")
    centre.thaw()
    centre.wait_until(lambda: centre.show(large).get("Restarts") == "1", "it is not requeued again", large)
    assert "missing from batch node" not in log.read_bytes()[logged:].decode(errors="replace"), (
        "Slurm found it out itself"
    )
    centre.cancel(small, user="bob")
    centre.wait_for_state(large, "COMPLETED")
    assert "done at step 80" in centre.output(large)


def _saved(centre: Centre, state: Path) -> bytes:
    """Return slurmctld's state of the jobs once it has saved it again: a killed slurmctld has nothing else."""
    now = time.time()
    centre.wait_until(lambda: state.exists() and state.stat().st_mtime > now, "slurmctld does not save its state")
    return state.read_bytes()


def _saving(centre: Centre) -> tuple[str, str]:
    large = centre.train(gpus=16, seconds=4, habit="slow", until_preempted=True)
    centre.wait_until_preemptable(large)
    small = centre.submit(command="sleep 1", user="bob")
    centre.wait_until(lambda: centre.published(large).get("phase") == "saving", "it does not save", large)
    return large, small


def _both_end(centre: Centre, large: str, small: str) -> None:
    centre.wait_for_state(small, "COMPLETED")
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "1"
    assert "done at step 80" in centre.output(large)
    assert len(centre.explain(large)["runs"]) == 2


def test_a_job_of_a_node_that_is_down_is_scheduled_again(centre: Centre) -> None:
    job = centre.train(gpus=4)
    node = centre.wait_for_state(job, "RUNNING")["NodeList"]
    centre.wait_until(lambda: centre.explain(job).get("runs"), "not seen running", job)
    for state in ("DRAIN", "DOWN"):  # drained, so that it does not resume by itself
        centre.scontrol("update", f"NodeName={node}", f"State={state}", "Reason=test")
    try:
        centre.wait_until(
            lambda: centre.show(job)["Restarts"] == "1" and centre.state(job) == "RUNNING", "not again", job
        )
        assert centre.show(job)["NodeList"] != node
    finally:
        centre.scontrol("update", f"NodeName={node}", "State=RESUME")
    first, second = centre.wait_until(
        lambda: runs if len(runs := centre.explain(job)["runs"]) == 2 else [], "no second run", job
    )
    assert 0 < first["end"] <= second["start"]


# -- bad input ----------------------------------------------------------------------------------------------------------


def _refused(centre: Centre, *words: str, code: int = 1) -> str:
    """Run a command that fails; return its one-line message."""
    done = centre.command(*words)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("tiresias: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_second_controller_in_the_same_run_folder(centre: Centre) -> None:
    assert "another controller listens" in _refused(centre, "controller", "--config", centre.config)
    assert centre.status(), "the first controller continues"


def test_a_configuration_with_a_typo(centre: Centre) -> None:
    path = centre.cluster.shared / "typo.toml"
    path.write_text("peroid = 3.0\n")
    assert "peroid" in _refused(centre, "controller", "--config", "/shared/typo.toml", code=2)


def test_state_that_cannot_be_used(centre: Centre) -> None:
    for damage, words in (
        ("mkdir -p STATE; chmod 500 STATE; chown root STATE", "make it writable"),
        (
            "mkdir -p STATE; head -c 3000 /dev/urandom > STATE/journal.sqlite; chown -R slurm STATE",
            "`tiresias ledger rebuild` makes it anew",
        ),
        (
            'mkdir -p STATE; python3 -c \'import sqlite3; d = sqlite3.connect("STATE/journal.sqlite"); '
            'd.execute("create table meta (name, value)"); d.execute("insert into meta values (\\"schema\\", \\"99\\")"); '
            "d.commit()'; chown -R slurm STATE",
            "newer version",
        ),
    ):
        config, inside = centre.configure(paths={"run": "/tmp/elsewhere"})
        centre.cluster.run(["sh", "-c", damage.replace("STATE", inside)])
        assert words in _refused(centre, "controller", "--config", config), damage


def test_hostile_names_change_nothing(centre: Centre) -> None:
    comment = "\x1b[31m[red]\n" * 70  # Slurm accepts 1 KB of either
    jobs = [centre.submit(f"--job-name={name}", f"--comment={comment}", command="true") for name in HOSTILE]
    plain = centre.submit(command="true", user="bob")
    for job in jobs:
        centre.wait_for_state(job, "COMPLETED")
        centre.wait_until(lambda job=job: centre.reasons(job, "start"), "not started by the controller", job)
    centre.wait_for_state(plain, "COMPLETED")
    shown = centre.command("status", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["version"] == 1
    for job in jobs:
        done = centre.command("explain", job)
        assert done.returncode == 0, done.stderr
        assert "\x1b[2J" not in done.stdout
