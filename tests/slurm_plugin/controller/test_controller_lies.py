"""Jobs with false reports, and their effect on the job itself and on others. Alice's jobs are honest, Bob's are not."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]
LIAR = "/opt/tiresias/tests/slurm_plugin/controller/liar.py"
READY = {"ready": True, "step": 9, "at": 9}
GPUS = 16  # of the cluster


@pytest.fixture(scope="module")
def configured() -> list[str]:
    """Return the configuration of these tests, empty before the first."""
    return []


@pytest.fixture
def shared(centre_of: Callable[[str], Centre], configured: list[str]) -> Iterator[Centre]:
    """One controller with a short deadline for all tests of this file."""
    centre = centre_of("forky")
    if not configured or centre.exit_code is not None or centre.config != configured[0]:
        centre.restart(preemption={"deadline": 8.0})
        configured[:] = [centre.config]
    yield centre
    centre.clean()


def lie(
    centre: Centre,
    supervisor: Mapping[str, object],
    program: Mapping[str, object],
    *more: str,
    gpus: int = GPUS,
    **how: Any,
) -> str:
    """Submit a job of Bob with these reports; return its id once it runs."""
    root = "/shared/tiresias/control"
    words = ["python3", LIAR, root, json.dumps(supervisor), json.dumps(program), *more]
    job: str = centre.submit(command=f"exec {shlex.join(words)}", gpus=gpus, user="bob", **how)
    centre.wait_for_state(job, "RUNNING")
    return job


def test_a_false_report_of_a_save_loses_only_the_unsaved_progress(shared: Centre) -> None:
    """Its GPUs are released at once."""
    liar = lie(shared, {"state": "parked", "step": 9}, READY)
    shared.wait_until_preemptable(liar)
    honest = shared.train(gpus=GPUS)
    shared.wait_for_state(honest, "RUNNING")
    shared.wait_until(lambda: shared.reasons(liar, "parked"), "the liar was not requeued", liar)
    assert shared.show(liar)["Restarts"] == "1"
    assert shared.show(honest)["Restarts"] == "0"


def test_a_save_without_end_stops_at_the_deadline_and_delays_no_other_job(shared: Centre) -> None:
    liar = lie(shared, {"state": "saving"}, {"ready": True}, gpus=12)
    shared.wait_until_preemptable(liar)
    waits = shared.train(gpus=GPUS)
    shared.wait_until(lambda: shared.published(liar).get("phase") == "saving", "the liar is not preempted", liar)
    before = shared.status()["cycle"]["count"]
    small = shared.train("--time=1", seconds=1.0)
    shared.wait_until(
        lambda: shared.reasons(liar, "left running"),
        "the preemption does not end at the deadline",
        liar,
        seconds=20,
    )
    assert shared.status()["cycle"]["count"] > before, "the controller ran no cycles meanwhile"
    shared.wait_until(
        lambda: shared.state(small) in ("RUNNING", "COMPLETED"), "a job for which GPUs are free waits", small
    )
    assert "did not save within 8 s" in shared.why(liar)
    assert (shared.state(liar), shared.show(liar)["Restarts"], shared.state(waits)) == (
        "RUNNING",
        "0",
        "PENDING",
    )
    assert shared.show(liar)["Priority"] != "0", "it is still held"


@pytest.mark.parametrize(
    "supervisor", [{"restart": 5, "state": "parked"}, {"restart": -1, "state": "parked"}, {"state": 1}]
)
def test_a_report_of_another_run_is_ignored(shared: Centre, supervisor: dict[str, object]) -> None:
    liar = lie(shared, supervisor, {"ready": supervisor == {"state": 1}, "restart": supervisor.get("restart", 1)})
    waits = shared.train(gpus=1)
    shared.wait_for_cycles(4)
    assert (shared.state(liar), shared.show(liar)["Restarts"], shared.state(waits)) == (
        "RUNNING",
        "0",
        "PENDING",
    )
    assert "has not shown that it can checkpoint" in shared.why(liar)


def test_a_flood_of_torn_reports_changes_nothing_for_others(shared: Centre) -> None:
    liar = lie(shared, {"state": "running"}, {"ready": True, "x": "y " * 4000}, "flood", gpus=2)
    honest = shared.train(gpus=2)
    shared.wait_until_preemptable(honest)
    shared.wait_for_cycles(4)
    assert shared.show(honest)["Restarts"] == "0"
    assert shared.published(liar)


def plant(centre: Centre, folder: str, user: str) -> None:
    """Write a report that the job has saved, as that user, where permissions allow it."""
    script = (
        "import sys; from pathlib import Path; from tiresias.protocol import control; f = Path(sys.argv[1]); "
        "f.mkdir(parents=True, exist_ok=True); "
        "control.write(f, 'supervisor.json', {'restart': 0, 'state': 'parked', 'step': 99}); "
        "control.write(f, 'program.json', {'restart': 0, 'ready': True, 'step': 99})"
    )
    centre.cluster.run(["python3", "-c", script, folder], user=user, check=False)


def test_a_user_cannot_park_the_job_of_another_user(shared: Centre) -> None:
    """Alice's job takes seconds to save. If "parked" were trusted, it would be requeued during the save."""
    alices = shared.train(gpus=GPUS, habit="slow")  # well within the deadline
    shared.wait_until_preemptable(alices)
    plant(shared, f"/shared/tiresias/control/2002/{alices}", "bob")
    plant(shared, f"/shared/tiresias/control/2001/{alices}", "bob")
    bobs = shared.submit(gpus=GPUS, user="bob")
    shared.wait_for_state(bobs, "RUNNING")

    def pauses() -> list[float]:
        return [run["pause"] for run in shared.explain(alices)["runs"] if run["pause"] is not None]

    shared.wait_until(
        pauses, "no pause is recorded", alices
    )  # the preempted job is requeued after the other one has started
    (pause,) = pauses()
    assert pause >= 4.0, "it was requeued before it had saved"
    assert int(shared.output(alices).partition("saved step ")[2].split()[0]) > 0


def test_the_report_of_an_older_job_is_not_used_for_a_newer_one(centre: Centre) -> None:
    """Bob has made Alice's folder in a new control root, and links it to the report of an earlier job of Alice."""
    fresh = centre.cluster.shared / "tiresias" / f"fresh-{os.getpid()}"
    fresh.mkdir()
    fresh.chmod(0o1777)
    inside = f"/shared/tiresias/{fresh.name}"
    centre.restart(paths={"control": inside})
    alices = centre.submit(gpus=GPUS)
    centre.wait_for_state(alices, "RUNNING")
    old = f"/shared/out/old-{alices}"
    plant(centre, old, "alice")
    centre.cluster.run(["sh", "-c", f"mkdir {inside}/2001 && ln -s {old} {inside}/2001/{alices}"], user="bob")
    bobs = centre.submit(gpus=GPUS, user="bob")
    centre.wait_for_cycles(6)
    assert (centre.state(alices), centre.show(alices)["Restarts"], centre.state(bobs)) == ("RUNNING", "0", "PENDING")
    assert "has not shown that it can checkpoint" in centre.why(alices)
