"""Jobs that lie to the running controller: what a lie gains, and whom it hurts. Alice is honest, Bob is not."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.sandbox
LIAR = "/opt/tiresias/tests/slurm_plugin/controller/liar.py"
READY = {"ready": True, "step": 9, "at": 9}
GPUS = 16  # all there are


@pytest.fixture(scope="module")
def configured() -> list[str]:
    """The configuration that these tests share, once it is made."""
    return []


@pytest.fixture
def hasty(centre_of: Callable[[str], Any], configured: list[str]) -> Iterator[Any]:
    """The controller goes on from test to test."""
    centre = centre_of("forky")
    if not configured or centre.exit_code is not None or centre.config != configured[0]:
        centre.restart(preemption={"deadline": 8.0})
        configured[:] = [centre.config]
    yield centre
    centre.clean()


def lie(
    centre: Any, supervisor: dict[str, object], program: dict[str, object], *more: str, gpus: int = GPUS, **how: Any
) -> str:
    """Bob's job; it runs."""
    root = "/shared/tiresias/control"
    words = ["python3", LIAR, root, json.dumps(supervisor), json.dumps(program), *more]
    job: str = centre.submit(command=f"exec {shlex.join(words)}", gpus=gpus, user="bob", **how)
    centre.reaches(job, "RUNNING")
    return job


def test_who_says_that_it_saved_loses_what_it_did_not_save(hasty: Any) -> None:
    """And nobody waits for it: its GPUs are free at once."""
    liar = lie(hasty, {"state": "parked", "step": 9}, READY)
    hasty.trains(liar)
    honest = hasty.train(gpus=GPUS)
    hasty.reaches(honest, "RUNNING")
    hasty.until(lambda: hasty.said(liar, "parked"), "the liar was not requeued", liar)
    assert hasty.show(liar)["Restarts"] == "1"
    assert hasty.show(honest)["Restarts"] == "0"


def test_who_saves_for_ever_is_left_alone_after_the_deadline_and_holds_up_nobody_else(hasty: Any) -> None:
    liar = lie(hasty, {"state": "saving"}, {"ready": True}, gpus=12)
    hasty.trains(liar)
    waits = hasty.train(gpus=GPUS)
    hasty.until(lambda: hasty.published(liar).get("phase") == "saving", "nobody asked the liar to save", liar)
    before = hasty.status()["cycle"]["count"]
    small = hasty.train("--time=1", seconds=1.0)
    hasty.until(lambda: hasty.said(liar, "left running"), "the deadline did not end it", liar, seconds=20)
    assert hasty.status()["cycle"]["count"] > before, "the controller stood still for it"
    hasty.until(lambda: hasty.state(small) in ("RUNNING", "COMPLETED"), "a job that needed nobody's GPUs waits", small)
    assert "did not save within 8 s" in hasty.why(liar)
    assert (hasty.state(liar), hasty.show(liar)["Restarts"], hasty.state(waits)) == ("RUNNING", "0", "PENDING")
    assert hasty.show(liar)["Priority"] != "0", "it is still held"


@pytest.mark.parametrize(
    "supervisor", [{"restart": 5, "state": "parked"}, {"restart": -1, "state": "parked"}, {"state": 1}]
)
def test_what_is_said_of_another_run_is_not_believed(hasty: Any, supervisor: dict[str, object]) -> None:
    liar = lie(hasty, supervisor, {"ready": supervisor == {"state": 1}, "restart": supervisor.get("restart", 1)})
    waits = hasty.train(gpus=1)
    hasty.cycles(4)
    assert (hasty.state(liar), hasty.show(liar)["Restarts"], hasty.state(waits)) == ("RUNNING", "0", "PENDING")
    assert "has not shown that it can checkpoint" in hasty.why(liar)


def test_a_flood_of_torn_reports_changes_nothing_for_others(hasty: Any) -> None:
    liar = lie(hasty, {"state": "running"}, {"ready": True, "x": "y " * 4000}, "flood", gpus=2)
    honest = hasty.train(gpus=2)
    hasty.trains(honest)
    hasty.cycles(4)
    assert hasty.show(honest)["Restarts"] == "0"
    assert hasty.published(liar)


def plant(centre: Any, folder: str, user: str) -> None:
    """A report that the job has saved, as that user; what he may not write he does not."""
    script = (
        "import sys; from pathlib import Path; from tiresias.protocol import control; f = Path(sys.argv[1]); "
        "f.mkdir(parents=True, exist_ok=True); "
        "control.write(f, 'supervisor.json', {'restart': 0, 'state': 'parked', 'step': 99}); "
        "control.write(f, 'program.json', {'restart': 0, 'ready': True, 'step': 99})"
    )
    centre.cluster.run(["python3", "-c", script, folder], user=user, check=False)


def test_nobody_parks_the_job_of_another(hasty: Any) -> None:
    """Her job takes seconds to save. Believed, "parked" would have it requeued in the middle of that."""
    hers = hasty.train(gpus=GPUS, habit="slow")  # well within the deadline
    hasty.trains(hers)
    plant(hasty, f"/shared/tiresias/control/2002/{hers}", "bob")
    plant(hasty, f"/shared/tiresias/control/2001/{hers}", "bob")
    own_folder = hasty.submit(gpus=GPUS, user="bob")
    hasty.reaches(own_folder, "RUNNING")

    def pauses() -> list[float]:
        return [run["pause"] for run in hasty.explain(hers)["runs"] if run["pause"] is not None]

    hasty.until(pauses, "no pause is recorded", hers)  # the preempted job is requeued after the other one has started
    (pause,) = pauses()
    assert pause >= 4.0, "it was not waited for"
    assert int(hasty.output(hers).partition("saved step ")[2].split()[0]) > 0


def test_an_older_job_of_hers_does_not_speak_for_a_newer_one(centre: Any) -> None:
    """Bob was first at her user folder in a fresh control root, and leads the controller to what another job of hers once said."""
    fresh = centre.cluster.shared / "tiresias" / f"fresh-{os.getpid()}"
    fresh.mkdir()
    fresh.chmod(0o1777)
    inside = f"/shared/tiresias/{fresh.name}"
    centre.restart(paths={"control": inside})
    hers = centre.submit(gpus=GPUS)
    centre.reaches(hers, "RUNNING")
    old = f"/shared/out/old-{hers}"
    plant(centre, old, "alice")
    centre.cluster.run(["sh", "-c", f"mkdir {inside}/2001 && ln -s {old} {inside}/2001/{hers}"], user="bob")
    own_folder = centre.submit(gpus=GPUS, user="bob")
    centre.cycles(6)
    assert (centre.state(hers), centre.show(hers)["Restarts"], centre.state(own_folder)) == ("RUNNING", "0", "PENDING")
    assert "has not shown that it can checkpoint" in centre.why(hers)
