"""`tiresias explain` and `tiresias status --me` on real jobs: arrays, ended and dependent ones, and those that Slurm blocks."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


def explain(centre: Centre, job: str, user: str = "alice") -> str:
    """Return the explanation for a user, at 80 columns."""
    words = ["tiresias", "explain", job, "--socket", "/run/tiresias/control.sock"]
    done = centre.cluster.run(words, user=user, env={"COLUMNS": "80"}, check=False)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "…" not in done.stdout
    return str(done.stdout)


def mine(centre: Centre, user: str, *words: str) -> str:
    command = ["tiresias", "status", *words, "--socket", "/run/tiresias/control.sock"]
    return str(centre.cluster.run(command, user=user).stdout)


def test_an_array_by_its_number_and_by_its_tasks(centre: Centre) -> None:
    array = centre.submit("--array=0-4", "--output=/dev/null", "--job-name=sweep", gpus=8, command="sleep 300")
    for task in (0, 1):
        centre.wait_for_state(f"{array}_{task}", "RUNNING")
    centre.wait_until(lambda: centre.show(f"{array}_4").get("Reason") == "JobHeldAdmin", "not held", array)
    centre.wait_for_cycles(2)
    text = explain(centre, array)
    assert text.startswith(f"array {array} sweep: 5 tasks\nuser          alice, partition gpu\n"), text
    assert re.search(r"^0-1 +2 running +8 RUNNING ", text, re.MULTILINE), text
    assert re.search(r"^2-4 +3 waiting +8 PENDING ", text, re.MULTILINE), text
    assert "JobHeldAdmin" in text
    some = explain(centre, f"{array}_[1-3]")
    assert some.startswith(f"array {array} sweep: 3 tasks\n"), some
    assert re.search(r"^1 +1 running", some, re.MULTILINE), some
    assert re.search(r"^2-3 +2 waiting", some, re.MULTILINE), some
    assert explain(centre, f"{array}_[2-9%1]").startswith(f"array {array} sweep: 3 tasks\n"), "as squeue prints it"
    number = centre.show(f"{array}_0")["JobId"]
    assert explain(centre, number).startswith(f"job {array}_0 sweep is running\n"), "by SLURM_JOB_ID"
    assert "submitted with sbatch: use tsbatch to make it preemptible" in re.sub(r"\s+", " ", some)


def test_how_a_job_ended(centre: Centre) -> None:
    jobs = {
        "exit 0": (centre.train(seconds=1.0), r"COMPLETED, exit code 0"),
        "exit 3": (centre.submit(command="exit 3", gpus=2), r"FAILED \(NonZeroExitCode\), exit code 3"),
        "signal": (centre.submit(command="kill -9 $$", gpus=2), r"FAILED .*exit code 137 \(signal 9\)"),
    }
    for job, line in jobs.values():
        centre.wait_until(lambda: centre.explain(job).get("job", {}).get("state") == "ENDED", "it has not ended", job)  # noqa: B023
        first, slurm, *rest = explain(centre, job).splitlines()
        assert re.fullmatch(rf"job {job} \S+ has ended", first)
        assert re.fullmatch(f"Slurm: {line}", slurm), slurm
        assert [one.split() for one in rest if one.startswith("user ")] == [["user", "alice,", "partition", "gpu"]]
        assert any(re.fullmatch(r"GPUs +[12]", one) for one in rest), rest


def test_a_job_that_waits_for_otbobs_shows_their_states(any_centre: Centre) -> None:
    centre = any_centre
    runs, fails = centre.submit(command="sleep 300"), centre.submit(command="exit 3")
    centre.wait_for_state(runs, "RUNNING")
    array = centre.submit("--array=0-1", "--output=/dev/null", command="sleep 300")
    waits = centre.submit(f"--dependency=afterok:{runs},afterany:{array}")
    centre.wait_for_state(fails, "FAILED")
    never = centre.submit(f"--dependency=afterok:{fails}")
    centre.wait_for_state(f"{array}_1", "RUNNING")
    centre.wait_until(lambda: centre.explain(never).get("slurm"), "not seen", never)
    centre.wait_for_cycles(2)
    first, *rest = explain(centre, waits).splitlines()[1:]
    assert first == "Slurm: PENDING (Dependency)"
    otbobs = [line.removeprefix("depends on").strip() for line in rest if line.startswith("depends on")]
    assert otbobs == [f"job {runs} (afterok): RUNNING", f"job {array}_* (afterany): 2 RUNNING"]
    text = re.sub(r"\s+", " ", explain(centre, never))
    assert f"depends on job {fails} (afterok): FAILED, exit code 3" in text
    assert "Slurm: PENDING (Dependency" in text


def test_blocked_jobs_are_in_the_users_own_view(centre: Centre) -> None:
    first = centre.submit(command="sleep 300", gpus=2)
    centre.wait_for_state(first, "RUNNING")
    waits, held = centre.submit(f"--dependency=afterok:{first}"), centre.submit("-H")
    bobs = centre.submit(user="bob", command="sleep 300")
    centre.wait_until(
        lambda: {waits, held} <= {one["id"] for one in centre.status().get("blocked", ())}, "not there", held
    )
    centre.wait_until(lambda: centre.published(bobs), "not there", bobs)

    def rows(text: str) -> dict[str, str]:
        return {
            found[1]: line for line in text.splitlines() if (found := re.match(r"\S? +([0-9]+) (?:alice|bob) ", line))
        }

    own = rows(mine(centre, "alice", "--me"))
    assert set(own) == {first, waits, held}
    assert own[waits].endswith("Blocked by Slurm: Dependency")
    assert own[held].endswith("Blocked by Slurm: JobHeldUser")
    assert set(rows(mine(centre, "alice", "--user", "bob"))) == {bobs}
    assert set(rows(mine(centre, "alice"))) >= {first, waits, held, bobs}
    found: dict[str, Any] = json.loads(mine(centre, "bob", "--me", "--json"))
    assert [job["id"] for job in (*found["jobs"], *found["blocked"])] == [bobs]
    assert {one["job"] for one in found["decisions"]} <= {bobs}
