"""The site of a replay with --shares: the accounts of users, which jobs are urgent, and which other jobs arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.errors import UsageError
from tiresias.sandbox.replay import setup, shared_site
from tiresias.sandbox.replay.setup import Options
from tiresias.sandbox.replay.shared_site import CPU_ONLY, UNMANAGED, SharedSite
from tiresias.simulator.trace import TraceJob

JOBS = [TraceJob(str(row), 10.0 * row, 1 + row % 4, 600.0, f"user{row % 5}", "", "", "") for row in range(40)]


def site(other_jobs: float = 0.2, seed: int = 1) -> SharedSite:
    return SharedSite.of(JOBS, (3, 1), 0.25, other_jobs, seed)


def test_all_jobs_of_a_user_belong_to_one_account_and_users_alternate() -> None:
    users = {job.user: site().user(job) for job in JOBS}
    assert users == {"user0": "alice", "user1": "bob", "user2": "alice", "user3": "bob", "user4": "alice"}


@given(seed=st.integers(0, 1000))
def test_the_choices_depend_on_the_seed_alone(seed: int) -> None:
    one, two = site(seed=seed), site(seed=seed)
    assert one == two
    assert [one.is_urgent(job) for job in JOBS] == [two.is_urgent(job) for job in reversed(JOBS)][::-1]
    assert not any(one.is_urgent(job) for job in one.others)


def test_other_jobs_arrive_among_those_of_the_trace() -> None:
    own = site()
    jobs = own.with_others(JOBS)
    assert len(jobs) == 40 + 8 + 8
    assert [job.submit_time for job in jobs] == sorted(job.submit_time for job in jobs)
    assert {own.kind(job.job_id) for job in jobs} == {"", CPU_ONLY, UNMANAGED}
    assert site(other_jobs=0.0).with_others(JOBS) == JOBS


def test_an_id_of_the_trace_that_is_taken_is_refused() -> None:
    with pytest.raises(UsageError, match="'cpu-only-0'"):
        SharedSite.of([*JOBS, TraceJob("cpu-only-0", 0.0, 1, 1.0, "", "", "", "")], (3, 1), 0.2, 0.2, 1)


def command(job: TraceJob, policy: str, own: SharedSite) -> list[str]:
    return setup.submission(job, 0, policy, Options(site=own))[2]


def test_jobs_are_submitted_by_kind() -> None:
    own = site()
    cpu_only = next(job for job in own.others if own.kind(job.job_id) == CPU_ONLY)
    unmanaged = next(job for job in own.others if own.kind(job.job_id) == UNMANAGED)
    words = command(cpu_only, "assist", own)
    assert words[0] == "sbatch"
    assert not any(word.startswith("--gpus=") for word in words)
    assert "--partition=other" in command(unmanaged, "assist", own)
    managed = command(JOBS[0], "assist", own)
    assert (managed[0], "--account=group1" in managed) == ("tsbatch", True)
    assert ("--qos=urgent" in managed) is own.is_urgent(JOBS[0])


def test_programs_lose_work_only_where_slurm_preempts() -> None:
    assert "--no-save-at-sigterm" in command(JOBS[0], "slurm-qos-requeue", site())
    assert "--no-save-at-sigterm" not in command(JOBS[0], "slurm-backfill", site())


def test_settings_of_slurm() -> None:
    requeue = shared_site.slurm_settings("slurm-qos-requeue", 30.0, "bf_interval=1")
    assert requeue["SchedulerParameters"] == "bf_interval=1,requeue_delay=4"
    assert (requeue["PreemptType"], requeue["PreemptMode"]) == ("preempt/qos", "REQUEUE")
    assert "PreemptType" not in shared_site.slurm_settings("assist", 30.0, "")
    assert shared_site.slurm_settings("slurm-qos-suspend", 30.0, "")["PreemptMode"] == "SUSPEND,GANG"


@pytest.mark.parametrize("policy", ["slurm-qos-requeue", "slurm-qos-suspend"])
def test_qos_policies_need_accounts(policy: str) -> None:
    with pytest.raises(UsageError, match="--shares"):
        setup.check([policy], JOBS)
    setup.check([policy], JOBS, site=site())
