"""The reason of a waiting job in the comment that Slurm's commands show, on a real Slurm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
GPUS = 16  # of the cluster


def comments(centre: Centre, field: str = "admin_comment") -> dict[str, str]:
    """Return the comment of each pending or running job in squeue."""
    words = ["squeue", "--noheader", "--array", "-O", f"jobarrayid:20,{field}:120"]
    lines = centre.cluster.run(words).stdout.splitlines()
    return {line[:20].strip(): line[20:].strip().replace("(null)", "") for line in lines}


def shows(centre: Centre, job: str, pattern: str, field: str = "admin_comment") -> str:
    """Wait until the job's comment matches the pattern; return the comment."""

    def matching() -> str:
        text = comments(centre, field).get(job, "")
        return text if re.search(pattern, text) else ""

    return centre.wait_until(matching, f"no comment {pattern!r}", job)


def test_from_the_wait_to_the_start_and_to_the_end_of_the_controller(any_centre: Centre) -> None:
    centre = any_centre
    holder = centre.submit("--time=30", gpus=GPUS)
    centre.wait_for_state(holder, "RUNNING")
    first = centre.submit("--comment=my own", "--time=10", gpus=4)
    array = centre.submit("--array=1-3", "--time=10", gpus=4)
    admins = centre.submit("--hold", "--time=10", gpus=4)
    centre.scontrol("update", f"JobId={admins}", "AdminComment=see ticket 7")
    centre.scontrol("release", admins, user="alice")
    shows(centre, first, r"^Tiresias: 1st of 5; needs 4 GPUs; about 30 min \(estimate\)$")
    text = shows(centre, f"{array}_2", r"^Tiresias: 2nd of 5; first of 3 tasks; needs 4 GPUs; about 30 min")
    assert comments(centre)[f"{array}_3"] == text, "one text, and one call, for the tasks that share a record"
    centre.wait_for_cycles(3)
    assert comments(centre)[admins] == "see ticket 7"
    assert comments(centre, "comment")[first] == "my own"
    assert "AdminComment=Tiresias: " in centre.scontrol("show", "job", first)
    for shape in documented_formats():
        shown = centre.cluster.run(["squeue", "--states=PD"], env={"SQUEUE_FORMAT2": shape}).stdout
        assert "Tiresias: 1st of 5; needs 4 GPUs" in shown, shape
    centre.cancel(holder)
    centre.wait_for_state(first, "RUNNING")
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
        centre.wait_until(lambda jobs=jobs: centre.published(jobs[1]), "it is not seen", *jobs)
        centre.wait_for_cycles(4)
        assert not any(comments(centre).values())
        centre.clean()


def documented_formats() -> list[str]:
    """Return the formats of docs/reference/waiting.md."""
    page = (Path(__file__).parents[3] / "docs/reference/waiting.md").read_text()
    found = re.findall(r"(?:SQUEUE_FORMAT2=|squeue [^\n`]*-O )([A-Z][\w:,]+)", page)
    assert len(found) == 2
    return found


@pytest.fixture
def accounted(centre_of: Callable[..., Centre]) -> Iterator[Centre]:
    """A cluster with accounting: the controller's user is an Operator, without the right to set AdminComment."""
    centre = centre_of("forky", accounting=True, settings={"PrivateData": "jobs,usage"})
    centre.restart(comment={"interval": 1.0})
    yield centre
    centre.clean()


def test_an_operator_uses_comments_that_owners_left_empty(accounted: Centre) -> None:
    holder = accounted.submit("--time=30", gpus=GPUS)
    accounted.wait_for_state(holder, "RUNNING")
    plain, commented = accounted.submit("--time=10", gpus=4), accounted.submit("--comment=mine", "--time=10", gpus=4)
    shows(accounted, plain, "^Tiresias: 1st of 2; needs 4 GPUs", "comment")
    accounted.wait_for_cycles(4)
    assert comments(accounted, "comment")[commented] == "mine"
    assert not any(comments(accounted).values())
    refused = accounted.cluster.run(
        ["scontrol", "update", f"JobId={plain}", "AdminComment=x"], user=accounted.cluster.spec.daemon_user, check=False
    )
    assert refused.returncode != 0, "if an Operator had the right, `auto` would have to use it"
    accounted.cancel(holder)
    accounted.wait_for_state(plain, "RUNNING")
    assert comments(accounted, "comment")[plain] == ""


def test_an_administrator_uses_admincomment_and_sacct_shows_none_of_it(accounted: Centre) -> None:
    level = "sacctmgr -i modify user {} set adminlevel={}"
    name = accounted.cluster.spec.daemon_user
    accounted.cluster.run(level.format(name, "administrator").split())
    try:
        accounted.restart(comment={"interval": 1.0})
        holder = accounted.submit("--time=30", gpus=GPUS)
        accounted.wait_for_state(holder, "RUNNING")
        job = accounted.submit("--time=10", gpus=4, command="true")
        shows(accounted, job, "^Tiresias: 1st of 1; needs 4 GPUs; about 30 min")
        assert not any(comments(accounted, "comment").values())
        accounted.cancel(holder)
        accounted.wait_for_state(job, "COMPLETED")
        sacct = f"sacct --noheader --parsable2 --allocations --jobs={job} --format=State,AdminComment"
        accounted.wait_until(
            lambda: accounted.cluster.run(sacct.split()).stdout.strip() == "COMPLETED|", "sacct shows a comment", job
        )
    finally:
        accounted.cluster.run(level.format(name, "operator").split())
