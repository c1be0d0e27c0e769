"""Jobs of exempt users are Slurm's alone, from their submission or from the day on which they are exempted."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
Centre = Any  # conftest.py


def test_exempt_users_are_never_touched(centre: Centre) -> None:
    centre.restart(exempt={"users": ["bob"]})
    foreign = centre.train(gpus=16, seconds=12, user="bob")
    record = centre.reaches(foreign, "RUNNING", seconds=10)  # at once: nobody set it aside
    own = centre.submit(gpus=4, command="true")
    reported = f"job {foreign}: user bob is exempt (exempt.users): Slurm alone schedules it"
    centre.until(
        lambda: centre.explain(foreign).get("error", "").startswith(f"{reported} (Slurm: "),
        "explain does not report that it is exempt",
        foreign,
    )
    centre.reaches(own, "COMPLETED")
    done = centre.reaches(foreign, "COMPLETED")
    assert (done["Restarts"], done["StartTime"]) == ("0", record["StartTime"])
    assert centre.show(own)["StartTime"] >= centre.show(foreign)["EndTime"], "it was preempted, or made room"


def test_a_user_who_becomes_exempt_gets_his_jobs_back(centre: Centre) -> None:
    config, state = centre.configure()
    centre.stop()
    centre.start(config)
    filler = centre.submit(gpus=16, command="sleep 5")
    centre.reaches(filler, "RUNNING")
    held = centre.submit(gpus=1, command="true", user="bob")
    centre.scontrol("update", f"JobId={held}", "StartTime=now")
    centre.until(lambda: centre.show(held)["Priority"] == "0", "is not held", held)
    centre.stop("KILL")
    centre.restart(paths={"state": state}, exempt={"users": ["bob"]})
    centre.until(lambda: centre.show(held)["Priority"] != "0", "is not let go", held)
    centre.reaches(held, "COMPLETED")
