"""The state database on a real Slurm: rebuilt from accounting, on a full disk, and damaged."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.slurm_plugin.state.journal import FILE
from tiresias.slurm_plugin.state.journal_history import History

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]
# There is no mount(8) in the cluster's tree.
SMALL_DISK = """
import ctypes, os, shutil, sys
folder, user = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
assert ctypes.CDLL(None).mount(b"tmpfs", folder.encode(), b"tmpfs", 0, b"size=512k,mode=755") == 0
shutil.chown(folder, user)
"""
READ_ONLY = "import ctypes, sys; assert ctypes.CDLL(None).mount(None, sys.argv[1].encode(), None, 33, None) == 0"
UNMOUNT = "import ctypes, sys; assert ctypes.CDLL(None).umount2(sys.argv[1].encode(), 2) == 0"
Runs = dict[tuple[str, int], tuple[float, float, int]]


@pytest.fixture
def accounted(centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    centre = centre_of("forky", accounting=True)
    yield centre
    centre.clean()
    centre.stop()


def ledger_of(state: Path) -> Runs:
    with closing(History.of(state / FILE)) as history:
        return {(job, run.restart): (run.start, run.end, run.gpus) for job, run in history.runs_since(0.0)}


def is_same(one: Runs, two: Runs) -> bool:
    """Return whether the runs have the same GPUs, and the same times within a second."""
    return one.keys() == two.keys() and all(
        one[run][2] == two[run][2] and abs(one[run][0] - two[run][0]) <= 1 and abs(one[run][1] - two[run][1]) <= 1
        for run in one
    )


def ledger(centre: Centre, *words: str) -> dict[str, Any]:
    done = centre.command("ledger", *words, "--config", centre.config, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
def test_a_lost_ledger_is_rebuilt_from_accounting_and_the_controller_continues(accounted: Centre) -> None:
    centre = accounted
    centre.cluster.run(["install", "-d", "-o", centre.cluster.spec.daemon_user, "/shared/ledger"])
    config, _ = centre.configure(paths={"state": "/shared/ledger"}, policy={"max_preemptions": 2})
    state = centre.cluster.shared / "ledger"
    centre.start(config)
    large = centre.train(gpus=16, seconds=20)
    for _ in range(2):  # each one preempts the large job
        centre.wait_until_preemptable(large)
        small = centre.submit(command="sleep 1", user="bob")
        centre.wait_for_state(small, "COMPLETED")
    centre.wait_until(
        lambda: centre.published(large).get("nodes"), "it does not resume", large
    )  # and may not be preempted again
    waiting = centre.submit(gpus=16, command="sleep 1")
    centre.wait_until(lambda: centre.published(waiting), "not seen", waiting)
    centre.wait_for_cycles(2)

    refused = centre.command("ledger", "rebuild", "--config", config)
    assert (refused.returncode, "another controller leads" in refused.stderr) == (1, True)
    assert ledger(centre, "check")["differences"] == []
    centre.stop("KILL")  # its hold stays
    before = ledger_of(state)
    assert [run for run in before if run[0] == large] == [(large, restart) for restart in range(3)]
    for file in state.glob(f"{FILE}*"):
        file.unlink()

    done = ledger(centre, "rebuild")
    jobs = {job for job, _ in before}  # accounting has those of earlier tests on this cluster as well
    after = {run: found for run, found in ledger_of(state).items() if run[0] in jobs}
    assert is_same(before, after), (before, after)
    assert (done["held"], done["live"], done["lost"]) == ([waiting], 2, 0)
    done = ledger(centre, "rebuild", "--claim")
    assert (done["held"], done["damage"]) == ([waiting], "")
    centre.start(config)
    assert centre.explain(large)["job"]["preemptions"] == 2
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "2"
    centre.wait_for_state(waiting, "COMPLETED")
    assert len(centre.explain(large)["runs"]) == 3


@pytest.mark.slow
def test_the_controller_waits_while_the_disk_is_full_and_reports_a_read_only_one(accounted: Centre) -> None:
    centre = accounted
    config, folder = centre.configure()
    if os.geteuid() != 0:
        pytest.skip("needs root, for a small file system")
    centre.cluster.run(["python3", "-c", SMALL_DISK, folder, centre.cluster.spec.daemon_user])
    try:
        centre.start(config)
        blocks = centre.submit(gpus=16)
        centre.wait_for_state(blocks, "RUNNING")
        centre.cluster.run(["sh", "-c", f"cat /dev/zero > {folder}/fill"], check=False)
        waits = centre.submit(command="sleep 1")
        output = f"state database {folder}/{FILE}: database or disk is full; free space in {folder}"
        centre.wait_until(lambda: any(output in line for line in centre.log()), "the full disk is not logged", waits)
        assert centre.exit_code is None
        assert centre.show(waits)["Priority"] != "0", "held, although the hold could not be journaled"
        assert centre.explain(waits).get("job") is None
        centre.cluster.run(["rm", f"{folder}/fill"])
        centre.wait_until(lambda: centre.show(waits)["Priority"] == "0", "not held by the controller", waits)
        # A controller that is stopped now lifts its holds, although it cannot journal that.
        centre.cluster.run(["sh", "-c", f"cat /dev/zero > {folder}/fill"], check=False)
        late = centre.submit(command="sleep 1")
        logged = len(centre.log())
        centre.wait_until(
            lambda: sum("/leader: No space left on device" in line for line in centre.log()[logged:]) > 12,
            "the full disk is not logged again",
            late,
        )
        assert centre.stop() == 0
        assert centre.show(waits)["Priority"] != "0"
        centre.cluster.run(["rm", f"{folder}/fill"])
        centre.start(config)
        centre.cancel(blocks)
        centre.wait_until(
            lambda: centre.explain(waits).get("job", {}).get("state") == "ENDED", "it does not continue", waits
        )
        assert centre.stop() == 0
        centre.cluster.run(["python3", "-c", READ_ONLY, folder])
        refused = centre.command("controller", "--once", "--config", config)
        assert (refused.returncode, f"state folder {folder}: Read-only file system" in refused.stderr) == (1, True)
        assert "Traceback" not in refused.stderr
    finally:
        centre.stop("KILL")
        centre.cluster.run(["python3", "-c", UNMOUNT, folder])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a small file system")
def test_a_full_run_folder_is_an_alarm_and_jobs_continue(accounted: Centre) -> None:
    centre, run = accounted, "/run/tiresias"
    centre.stop()
    centre.cluster.run(["python3", "-c", SMALL_DISK, run, centre.cluster.spec.daemon_user])
    try:
        centre.start(centre.configure()[0])
        centre.cluster.run(["sh", "-c", f"cat /dev/zero > {run}/fill"], check=False)
        output = f"run folder {run}: No space left on device; job_submit.lua holds no new jobs"
        centre.wait_until(lambda: [one for one in centre.status()["alarms"] if output in one], "there is no alarm")
        lease = centre.root / run.strip("/") / "lease"
        assert lease.read_text().count("\n") == 6, "the last lease is complete"
        job = centre.submit(command="sleep 1")
        centre.wait_for_state(job, "COMPLETED")
        assert centre.explain(job)["runs"], "the controller has seen it"
        centre.cluster.run(["rm", f"{run}/fill"])
        centre.wait_until(lambda: not any(output in one for one in centre.status()["alarms"]), "the alarm stays")
        assert (centre.exit_code, centre.stop()) == (None, 0)
    finally:
        centre.stop("KILL")
        centre.cluster.run(["python3", "-c", UNMOUNT, run])


def test_a_database_that_is_damaged_under_the_controller_ends_it_and_its_holds(accounted: Centre) -> None:
    centre = accounted
    centre.cluster.run(["install", "-d", "-o", centre.cluster.spec.daemon_user, "/shared/damaged"])
    config, _ = centre.configure(paths={"state": "/shared/damaged"})
    centre.start(config)
    blocks = centre.submit(gpus=16)
    centre.wait_for_state(blocks, "RUNNING")
    waits = centre.submit(command="sleep 1")
    centre.wait_until(lambda: centre.show(waits)["Priority"] == "0", "not held by the controller", waits)
    with (centre.cluster.shared / "damaged" / FILE).open("r+b") as file:
        file.write(b"x" * 8192)
    centre.submit(command="sleep 1")  # causes a write
    centre.wait_until(lambda: centre.exit_code is not None, "it does not end", waits)
    assert centre.exit_code == 1
    assert "`tiresias ledger rebuild` makes it anew from Slurm's accounting" in centre.log()[-1]
    assert not any("Traceback" in line for line in centre.log())
    assert centre.show(waits)["Priority"] != "0"
    assert ledger(centre, "rebuild")["damage"] == "file is not a database"
    centre.start(config)
    centre.cancel(blocks)
    centre.wait_until(
        lambda: centre.explain(waits).get("job", {}).get("state") == "ENDED", "it does not continue", waits
    )
