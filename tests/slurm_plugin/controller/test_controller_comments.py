"""Why a job waits, where Slurm's own commands show it, on a real Slurm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
GPUS = 16  # all there are
Centre = Any  # conftest.py


def comments(centre: Centre, field: str = "admin_comment") -> dict[str, str]:
    """Of the jobs that wait or run, as squeue shows them."""
    words = ["squeue", "--noheader", "--array", "-O", f"jobarrayid:20,{field}:120"]
    lines = centre.cluster.run(words).stdout.splitlines()
    return {line[:20].strip(): line[20:].strip().replace("(null)", "") for line in lines}


def shows(centre: Centre, job: str, pattern: str, field: str = "admin_comment") -> str:
    found: str = centre.until(
        lambda: (text := comments(centre, field).get(job, "")) and re.search(pattern, text) and text,
        f"no comment {pattern!r}", job,
    )  # fmt: skip
    return found


def test_from_the_wait_to_the_start_and_to_the_end_of_the_controller(any_centre: Centre) -> None:
    centre = any_centre
    holder = centre.submit("--time=30", gpus=GPUS)
    centre.reaches(holder, "RUNNING")
    first = centre.submit("--comment=my own", "--time=10", gpus=4)
    array = centre.submit("--array=1-3", "--time=10", gpus=4)
    admins = centre.submit("--hold", "--time=10", gpus=4)
    centre.scontrol("update", f"JobId={admins}", "AdminComment=see ticket 7")
    centre.scontrol("release", admins, user="alice")
    shows(centre, first, r"^Tiresias: 1st of 5; needs 4 GPUs; about 30 min \(estimate\)$")
    text = shows(centre, f"{array}_2", r"^Tiresias: 2nd of 5; first of 3 tasks; needs 4 GPUs; about 30 min")
    assert comments(centre)[f"{array}_3"] == text, "one text, and one call, for the tasks that share a record"
    centre.cycles(3)
    assert comments(centre)[admins] == "see ticket 7"
    assert comments(centre, "comment")[first] == "my own"
    assert "AdminComment=Tiresias: " in centre.scontrol("show", "job", first)
    for shape in documented_formats():
        shown = centre.cluster.run(["squeue", "--states=PD"], env={"SQUEUE_FORMAT2": shape}).stdout
        assert "Tiresias: 1st of 5; needs 4 GPUs" in shown, shape
    centre.cancel(holder)
    centre.reaches(first, "RUNNING")
    assert comments(centre)[first] == "", "a start removes it"
    more = centre.submit("--time=10", gpus=GPUS)
    shows(centre, more, "^Tiresias: 2nd of 2; needs 16 GPUs")
    assert centre.stop() == 0
    assert not [text for text in comments(centre).values() if text.startswith("Tiresias")]
    assert centre.exit_code == 0


def test_mode_shadow_and_field_none_write_nothing(centre: Centre) -> None:
    for changes in ({"mode": "shadow"}, {"comment": {"field": "none"}}):
        centre.restart(**changes)
        jobs = [centre.submit(gpus=GPUS) for _ in range(2)]
        centre.until(lambda jobs=jobs: centre.published(jobs[1]), "it is not seen", *jobs)
        centre.cycles(4)
        assert not any(comments(centre).values())
        centre.clean()


def documented_formats() -> list[str]:
    """All of docs/reference/waiting.md that a user may copy."""
    page = (Path(__file__).parents[3] / "docs/reference/waiting.md").read_text()
    found = re.findall(r"(?:SQUEUE_FORMAT2=|squeue [^\n`]*-O )([A-Z][\w:,]+)", page)
    assert len(found) == 2
    return found


@pytest.fixture
def office(centre_of: Callable[..., Any]) -> Iterator[Any]:
    """With accounting: the controller's user is an Operator, who may not set AdminComment."""
    centre = centre_of("forky", accounting=True, settings={"PrivateData": "jobs,usage"})
    centre.restart(comment={"interval": 1.0})
    yield centre
    centre.clean()


def test_an_operator_uses_comments_that_owners_left_empty(office: Any) -> None:
    holder = office.submit("--time=30", gpus=GPUS)
    office.reaches(holder, "RUNNING")
    plain, hers = office.submit("--time=10", gpus=4), office.submit("--comment=mine", "--time=10", gpus=4)
    shows(office, plain, "^Tiresias: 1st of 2; needs 4 GPUs", "comment")
    office.cycles(4)
    assert comments(office, "comment")[hers] == "mine"
    assert not any(comments(office).values())
    refused = office.cluster.run(
        ["scontrol", "update", f"JobId={plain}", "AdminComment=x"], user=office.cluster.spec.daemon_user, check=False
    )
    assert refused.returncode != 0, "if an Operator may set it, `auto` must use it"
    office.cancel(holder)
    office.reaches(plain, "RUNNING")
    assert comments(office, "comment")[plain] == ""


def test_an_administrator_uses_admincomment_and_sacct_shows_none_of_it(office: Any) -> None:
    level = "sacctmgr -i modify user {} set adminlevel={}"
    name = office.cluster.spec.daemon_user
    office.cluster.run(level.format(name, "administrator").split())
    try:
        office.restart(comment={"interval": 1.0})
        holder = office.submit("--time=30", gpus=GPUS)
        office.reaches(holder, "RUNNING")
        job = office.submit("--time=10", gpus=4, command="true")
        shows(office, job, "^Tiresias: 1st of 1; needs 4 GPUs; about 30 min")
        assert not any(comments(office, "comment").values())
        office.cancel(holder)
        office.reaches(job, "COMPLETED")
        sacct = f"sacct --noheader --parsable2 --allocations --jobs={job} --format=State,AdminComment"
        office.until(
            lambda: office.cluster.run(sacct.split()).stdout.strip() == "COMPLETED|", "sacct shows a comment", job
        )
    finally:
        office.cluster.run(level.format(name, "operator").split())
