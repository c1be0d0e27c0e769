"""Jobs of exempt users are Slurm's alone, from their submission, or from the restart with which they become exempt."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]


def test_jobs_of_exempt_users_are_never_changed(centre: Centre) -> None:
    centre.restart(exempt={"users": ["bob"]})
    foreign = centre.train(gpus=16, seconds=12, user="bob")
    record = centre.wait_for_state(foreign, "RUNNING")
    assert record["EligibleTime"] == record["SubmitTime"], "job_submit.lua delayed it"
    own = centre.submit(gpus=4, command="true")
    reported = f"job {foreign}: user bob is exempt (exempt.users): Slurm alone schedules it"
    centre.wait_until(
        lambda: centre.explain(foreign).get("error", "").startswith(f"{reported} (Slurm: "),
        "explain does not report that it is exempt",
        foreign,
    )
    centre.wait_for_state(own, "COMPLETED")
    done = centre.wait_for_state(foreign, "COMPLETED")
    assert (done["Restarts"], done["StartTime"]) == ("0", record["StartTime"])
    assert centre.show(own)["StartTime"] >= centre.show(foreign)["EndTime"], "the exempt job was preempted"


@pytest.mark.long
def test_the_held_jobs_of_a_newly_exempt_user_are_released(centre: Centre) -> None:
    config, state = centre.configure()
    centre.stop()
    centre.start(config)
    filler = centre.submit(gpus=16, command="sleep 5")
    centre.wait_for_state(filler, "RUNNING")
    held = centre.submit(gpus=1, command="true", user="bob")
    centre.scontrol("update", f"JobId={held}", "StartTime=now")
    centre.wait_until(lambda: centre.show(held)["Priority"] == "0", "is not held", held)
    centre.stop("KILL")
    centre.restart(paths={"state": state}, exempt={"users": ["bob"]})
    centre.wait_until(lambda: centre.show(held)["Priority"] != "0", "the hold is not lifted", held)
    centre.wait_for_state(held, "COMPLETED")
