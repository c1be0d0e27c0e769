"""Fairness between two accounts and two users on a real Slurm with a fair-share tree, and after a kill of the controller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.sandbox import accounts

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.long]
GPUS = 16  # of the cluster
POLICY = {"name": "las", "thresholds": [1e6], "min_run": 1.0, "usage_period": 1.0, "usage_half_life": 3600.0}


def use_of(centre: Centre, job: str) -> float:
    found = centre.wait_until(lambda: centre.published(job), f"job {job} is not published", job)
    return float(found["owner_use"])


def occupied(centre: Centre, *options: str, user: str) -> list[str]:
    """Jobs of the user on all GPUs, which have run until their owner counts."""
    jobs = [centre.train(*options, gpus=4, seconds=600, user=user) for _ in range(GPUS // 4)]
    for job in jobs:
        centre.wait_until_preemptable(job)
    centre.wait_until(lambda: centre.published(jobs[0]).get("owner_use"), "its owner has used nothing", *jobs)
    return jobs


def test_the_account_below_its_share_preempts_and_a_restart_changes_nothing(centre_of: Callable[..., Centre]) -> None:
    centre = centre_of("forky", accounting=True)
    accounts.add(centre.cluster, {"physics": ["fairshare=3"], "biology": ["fairshare=1"]}, ("alice", "bob"))
    centre.restart(policy={**POLICY, "fairness": "accounts"})
    old = occupied(centre, "--account=physics", user="alice")
    new = centre.submit("--account=biology", gpus=4, user="alice")
    centre.wait_for_state(new, "RUNNING")
    assert sum(bool(centre.reasons(job, "preempt")) for job in old) == 1
    centre.wait_until(lambda: use_of(centre, new) > 0.0, "its account has used nothing", new)
    assert centre.published(new)["owner"] == "account biology"
    assert centre.published(new)["owner_share"] == pytest.approx(0.25)  # fairshare 1 of 1 + 3
    assert use_of(centre, old[0]) > 1.0 > use_of(centre, new)
    assert "fairness: account physics used" in centre.command("status").stdout
    assert "times its share of 25%" in centre.command("explain", new).stdout
    before = use_of(centre, old[0])
    centre.stop("KILL")
    centre.start(centre.config)
    assert use_of(centre, old[0]) == pytest.approx(before, rel=0.2)  # the biology job has run on meanwhile
    assert {row[0] for row in centre.query_journal("select distinct account from run")} == {"physics", "biology"}
    centre.clean()
    centre.stop()


def test_a_user_gains_nothing_by_cancelling_and_resubmitting(centre_of: Callable[..., Centre]) -> None:
    centre = centre_of("forky", accounting=True)
    centre.restart(policy={**POLICY, "fairness": "users"})
    old = occupied(centre, user="alice")
    centre.cancel(*old)
    again = [centre.train("--job-name=other", gpus=4, seconds=600) for _ in range(GPUS // 4)]
    for job in again:
        centre.wait_until_preemptable(job)
    assert use_of(centre, again[0]) > 0.0
    new = centre.submit(gpus=4, user="bob")
    centre.wait_for_state(new, "RUNNING")
    assert sum(bool(centre.reasons(job, "preempt")) for job in again) == 1
    assert use_of(centre, new) < use_of(centre, again[0])
    centre.clean()
    centre.stop()
