"""What the verbs do to real jobs, the same through both back ends."""

from __future__ import annotations

import time

import pytest

from tiresias.slurm_plugin.backends.interface import TOP_PRIORITY, JobRefused, NoSuchJob, NotRequeueable, RequestChange

pytestmark = pytest.mark.sandbox


def test_hold_is_an_admins_and_release_lifts_it(site):
    site.running("--exclusive", "--nodes=4")  # so that what waits, waits
    job_id = site.submit("--gpus=1")
    site.backend.hold(job_id)
    job = site.backend.job(job_id)
    assert (job.held_by_admin, job.held_by_user, job.reason, job.priority) == (True, False, "JobHeldAdmin", 0)
    refused = site.cluster.run(["scontrol", "release", job_id], user="alice", check=False)
    assert refused.returncode != 0
    site.backend.release(job_id)
    assert not site.backend.job(job_id).held_by_admin
    assert site.backend.job(job_id).priority > 0


def test_a_prioritized_job_keeps_others_from_its_nodes_until_it_starts(site):
    """It waits for the GPUs that another one holds, and runs before a job that was submitted earlier, in another partition too."""
    before = site.running("--gpus=4", "--nodelist=gpu01")
    earlier = site.submit("--partition=other", "--gpus=1", "--nodelist=gpu01")
    job = site.submit("--hold", "--gpus=4")
    site.start(job, "gpu01")
    site.backend.prioritize(job)
    assert site.job(job).priority == TOP_PRIORITY
    site.backend.requeue(before.id)
    assert [share.node for share in site.wait(job, lambda job: job.state == "RUNNING").shares] == ["gpu01"]
    assert site.job(earlier).state == "PENDING"
    site.backend.lift(job)
    assert site.wait(job, lambda job: 0 < job.priority < TOP_PRIORITY).state == "RUNNING"


def test_a_hold_takes_the_highest_priority_back(site):
    job = site.submit("--gpus=1", "--begin=now+1hour")
    site.backend.prioritize(job)
    site.backend.hold(job)
    site.backend.lift(job)
    assert 0 < site.job(job).priority < TOP_PRIORITY


def test_hold_takes_the_place_of_a_users(site):
    job_id = site.submit("--hold")
    assert (site.backend.job(job_id).held_by_user, site.backend.job(job_id).held_by_admin) == (True, False)
    site.backend.hold(job_id)
    assert site.backend.job(job_id).held_by_admin


def test_a_running_job_runs_on_while_it_is_held(site):
    job = site.running("--gpus=2")
    site.backend.hold(job.id)
    held = site.backend.job(job.id)
    assert (held.state, held.priority, held.start_time, held.shares) == ("RUNNING", 0, job.start_time, job.shares)
    site.backend.release(job.id)
    assert site.backend.job(job.id).priority > 0
    assert site.backend.job(job.id).state == "RUNNING"


def test_start_takes_exactly_these_nodes(site):
    job_id = site.submit("--hold", "--gpus=4", "--ntasks=4", "--gpus-per-task=1", "--mem-per-cpu=100")
    site.running("--gres=gpu:3", "--nodelist=gpu02", "--mem-per-cpu=100")
    site.backend.hold(job_id)
    site.start(job_id, "gpu02", "gpu03")
    job = site.wait(job_id, lambda job: job.state == "RUNNING" and bool(job.shares))
    assert [(share.node, share.gpus) for share in job.shares] == [("gpu02", 1), ("gpu03", 3)]


def test_unpin_gives_the_request_back(site):
    job_id = site.submit("--hold", "--gpus=2", "--ntasks=2", "--nodes=1-2", "--nodelist=gpu01")
    site.backend.hold(job_id)
    before = site.backend.job(job_id)
    site.cluster.run(["scontrol", "update", f"jobid={job_id}", "numnodes=2-2", "reqnodelist=gpu03,gpu04"])
    pinned = site.backend.job(job_id)
    assert (pinned.min_nodes, pinned.max_nodes, pinned.required_nodes) == (2, 2, ("gpu03", "gpu04"))
    site.backend.unpin(
        job_id, RequestChange(nodes=(before.min_nodes, before.max_nodes), required=before.required_nodes)
    )
    assert site.backend.job(job_id) == before
    site.backend.unpin(job_id, RequestChange(nodes=(1, 0), required=()))
    free = site.backend.job(job_id)
    assert (free.min_nodes, free.required_nodes) == (1, ())
    assert free.max_nodes > 4


def test_start_does_not_shrink_a_running_job(site):
    job = site.running("--gpus=2", "--nodes=2", "--ntasks=2")
    with pytest.raises(JobRefused):
        site.start(job.id, job.shares[0].node)
    assert site.backend.job(job.id).shares == job.shares


def test_start_on_a_node_that_is_not_there_leaves_the_job_held(site):
    job_id = site.submit("--hold")
    site.backend.hold(job_id)
    with pytest.raises(JobRefused, match=f"job {job_id}: Invalid node name"):
        site.start(job_id, "gpu99")
    job = site.backend.job(job_id)
    assert (job.held_by_admin, job.min_nodes, job.required_nodes) == (True, 1, ())


def test_signal_reaches_the_batch_shell_only(site):
    folder = site.cluster.shared / f"signal-{time.monotonic_ns()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    inside = f"/shared/{folder.name}"
    script = (
        f"trap 'echo shell >> {inside}/got' USR2; "
        f"(trap 'echo child >> {inside}/got' USR2; touch {inside}/ready; while true; do sleep 0.1; done) & "
        "while true; do wait; done"
    )
    job = site.running(script=script)
    _eventually(lambda: (folder / "ready").exists())
    site.backend.signal(job.id, "USR2")
    _eventually(lambda: (folder / "got").exists())
    time.sleep(0.5)  # for a child that should not have got it
    assert (folder / "got").read_text().split() == ["shell"]
    assert site.backend.job(job.id).state == "RUNNING"


def test_signal_does_nothing_to_a_job_that_waits(site):
    job_id = site.submit("--hold")
    with pytest.raises(JobRefused, match="not running"):
        site.backend.signal(job_id, "USR2")
    assert site.backend.job(job_id).state == "PENDING"


@pytest.mark.parametrize("name", ["", "KILL -9", "USR2\n", "--full"])
def test_signal_names_are_checked(site, name):
    job_id = site.submit("--hold")
    with pytest.raises(JobRefused, match="signal"):
        site.backend.signal(job_id, name)


def test_requeue(site):
    job = site.running("--gpus=2")
    site.backend.hold(job.id)
    _next_second()
    end = site.backend.requeue(job.id)
    again = site.wait(job.id, _settled)
    assert (again.restarts, again.held_by_admin, again.reason, again.shares) == (1, True, "JobHeldAdmin", ())
    assert (again.gpus, again.min_nodes, again.start_time, again.end_time) == (2, 1, 0, end)
    assert site.ran(job.id) == [(job.start_time, end)]
    assert again.begin_time > time.time() + 100
    site.backend.release(job.id)
    third = site.wait(job.id, lambda job: job.state == "RUNNING", seconds=10)
    assert (third.restarts, third.start_time >= end) == (1, True)


def test_several_jobs_are_requeued_together(site):
    jobs = [site.running("--gpus=1").id for _ in range(3)]
    site.backend.requeue_together(jobs)
    assert [site.backend.job(job).restarts for job in jobs] == [1, 1, 1]
    unwilling, another = site.running("--gpus=1", "--no-requeue").id, site.running("--gpus=1").id
    with pytest.raises(JobRefused):
        site.backend.requeue_together([unwilling, another])
    assert site.backend.job(another).restarts == 1


def test_a_requeued_job_starts_again_where_it_is_told(site):
    job = site.running("--gpus=1", "--nodelist=gpu01")
    site.backend.hold(job.id)
    site.backend.requeue(job.id)
    site.wait(job.id, _settled)
    site.start(job.id, "gpu03")
    again = site.wait(job.id, lambda job: job.state == "RUNNING" and bool(job.shares), seconds=10)
    assert [share.node for share in again.shares] == ["gpu03"]


@pytest.mark.slow
def test_what_completing_shows(site):
    """A run that does not heed SIGTERM keeps its nodes for KillWait seconds after Slurm's own accounts have closed it."""
    job = site.running("--gpus=3", script="trap '' TERM; while true; do sleep 0.1; done")
    assert site.job(job.id).shares == job.shares
    site.backend.hold(job.id)
    _next_second()
    end = site.backend.requeue(job.id)
    for leaving in (site.backend.job(job.id), site.job(job.id)):
        assert (leaving.state, leaving.completing, leaving.restarts) == ("PENDING", True, 1)
        assert (leaving.start_time, leaving.end_time, leaving.shares) == (0, end, job.shares)
    waiting = site.wait(job.id, lambda job: not job.completing)
    assert waiting.submit_time - end >= 4
    assert (waiting.end_time, waiting.shares) == (end, ())
    assert site.ran(job.id) == [(job.start_time, end)]


@pytest.mark.slow
def test_a_cancelled_job_that_completes_is_not_pending(site):
    job = site.running("--gpus=1", script="trap '' TERM; while true; do sleep 0.1; done")
    site.cluster.run(["scancel", job.id])
    leaving = site.wait(job.id, lambda job: job.completing)
    assert leaving.state not in ("PENDING", "RUNNING")
    assert leaving.end_time >= job.start_time
    assert [(share.node, share.gpus) for share in leaving.shares] == [(share.node, share.gpus) for share in job.shares]


def test_a_requeue_by_others_is_seen(site):
    job = site.running("--gpus=1")
    site.cluster.run(["scontrol", "requeue", job.id], user="alice")
    again = site.wait(job.id, lambda job: job.state == "PENDING" and not job.completing)
    assert (again.restarts, again.held_by_admin) == (1, False)


def test_a_job_that_has_ended_is_not_run_again(site):
    job_id = site.submit(script="true")
    ended = site.wait(job_id, lambda job: job.state == "COMPLETED" and not job.completing)
    site.backend.requeue(job_id)
    assert site.backend.job(job_id) == ended
    assert site.job(job_id) == ended


def test_what_may_never_be_requeued(site):
    job = site.running("--no-requeue")
    with pytest.raises(NotRequeueable, match=f"job {job.id}: Requested operation is presently disabled"):
        site.backend.requeue(job.id)
    assert site.backend.job(job.id).state == "RUNNING"
    srun = site.cluster.popen(["srun", "--job-name=byhand", "sleep", "300"], user="alice")
    try:
        allocation = _eventually(
            lambda: [one.id for one in site.jobs().values() if one.name == "byhand" and one.shares]
        )[0]
        with pytest.raises(NotRequeueable, match=f"job {allocation}: Only batch jobs"):
            site.backend.requeue(allocation)
        assert site.backend.job(allocation).state == "RUNNING"
    finally:
        site.cluster.run(["scancel", "--name=byhand"])
        srun.wait(30)


VERBS = [
    ("hold",),
    ("release",),
    ("pin", RequestChange(required=("gpu01",))),
    ("unpin", RequestChange(nodes=(1, 1))),
    ("signal", "USR2"),
    ("requeue",),
    ("job",),
]


UNKNOWN = [
    "999999",
    "999999_1",
    "999999+1",
    "1; id",
    "",
    "-1",
    "0",
    "all",
    "0x10",
    "1\n2",
    "\N{ARABIC-INDIC DIGIT THREE}",
]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_jobs_that_do_not_exist(site, verb):
    name, *arguments = verb
    for job_id in UNKNOWN:
        with pytest.raises(NoSuchJob, match=r"^job "):
            getattr(site.backend, name)(job_id, *arguments)


def test_one_task_of_an_array(site):
    array = site.submit("--hold", "--array=1-4", "--gpus=1")
    second, third = f"{array}_2", f"{array}_3"
    for task in range(1, 5):
        site.backend.hold(f"{array}_{task}")
    site.start(third, "gpu04")
    running = site.wait(third, lambda job: job.state == "RUNNING" and bool(job.shares))
    assert [share.node for share in running.shares] == ["gpu04"]
    site.backend.hold(third)
    end = site.backend.requeue(third)
    again = site.wait(third, lambda job: job.state == "PENDING" and not job.completing)
    assert (again.restarts, again.end_time, again.array_id) == (1, end, int(array))
    site.backend.release(second)
    site.wait(second, lambda job: job.state == "RUNNING")
    found = {one.id: (one.state, one.held_by_admin) for one in site.jobs().values() if one.array_id == int(array)}
    assert found == {
        f"{array}_1": ("PENDING", True), second: ("RUNNING", False), third: ("PENDING", True), f"{array}_4": ("PENDING", True)
    }  # fmt: skip


def test_release_keeps_a_users_begin_time(site):
    job_id = site.submit("--begin=now+1hour", "--gpus=1")
    site.backend.hold(job_id)
    site.backend.release(job_id)
    assert site.backend.job(job_id).begin_time > time.time() + 3000


def test_version(site):
    assert site.backend.version() == site.cluster.slurm_version


def _settled(job):
    """Started sooner, a run may find its files in slurmd's spool swept away with those of the run before (seen on 24.11)."""
    return job.state == "PENDING" and not job.completing and time.time() > job.submit_time + 2


def _next_second():
    """So that the run is longer than the clock's grain."""
    time.sleep(1.1)


def _eventually(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"not after {seconds:g} s: {found}"
        time.sleep(0.1)
    return found


def test_tasks_that_share_a_record_are_held_and_released_together_and_stay_one_record(site):
    site.running("--exclusive", "--nodes=4")
    array = site.submit("--gpus=1", "--array=0-9")
    one = f"{array}_4"
    site.backend.hold(one)  # takes it out
    rest = f"{array}_[0-3,5-9]"
    for verb, held in ((site.backend.hold, True), (site.backend.lift, False)):
        verb(rest)
        tasks = {job_id: job for job_id, job in site.jobs().items() if job_id.startswith(f"{array}_")}
        assert len(tasks) == 10
        assert len({job.raw_id for job in tasks.values()}) == 2
        assert {job_id for job_id, job in tasks.items() if job.held_by_admin} == (set(tasks) if held else {one})
