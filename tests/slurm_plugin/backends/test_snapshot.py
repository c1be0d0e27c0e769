"""What a snapshot shows, on real Slurm, the same through both back ends."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.slurm_plugin.backends.conftest import Site
from tests.slurm_plugin.backends.waiting import eventually
from tiresias.slurm_plugin.backends.interface import SlurmJob

pytestmark = pytest.mark.sandbox

# sbatch's ways to ask for GPUs: options, (all GPUs, type, per node)
WAYS = [
    (["--gpus=3"], (3, "", 0)),
    (["--gpus=v100:3"], (3, "v100", 0)),
    (["--gres=gpu:2"], (2, "", 2)),
    (["--gres=gpu"], (1, "", 1)),
    (["--gres=gpu:v100:2", "--nodes=2"], (4, "v100", 2)),
    (["--gpus-per-node=3", "--nodes=2"], (6, "", 3)),
    (["--gpus-per-node=v100:1", "--nodes=1-3"], (1, "v100", 1)),
    (["--gpus-per-task=2", "--ntasks=3"], (6, "", 0)),
    (["--gpus=8", "--ntasks=8", "--gpus-per-task=1"], (8, "", 0)),
    (["--gpus=2", "--ntasks-per-gpu=2"], (2, "", 0)),
    (["--gpus-per-socket=2", "--sockets-per-node=1"], (2, "", 2)),
    (["--ntasks=2"], (0, "", 0)),
]


def test_every_way_to_ask_for_gpus(site: Site) -> None:
    expected = {site.submit("--hold", *options): shape for options, shape in WAYS}
    jobs = site.jobs()
    assert {one: (jobs[one].gpus, jobs[one].gpu_type, jobs[one].gpus_per_node) for one in expected} == expected


def test_a_request_with_everything(site: Site) -> None:
    first = site.submit("--hold")
    options = [
        "--partition=gpu,other",
        "--nodelist=gpu01",
        "--exclude=gpu[02-03]",
        "--constraint=rack1",
        "--mem=1000",
        "--no-requeue",
    ]
    dated = site.submit(
        "--begin=now+1hour", f"--dependency=afterany:{first}", "--time=1-00:00:10", "--job-name=all of it", *options
    )
    job, now = site.job(dated), time.time()
    assert (job.name, job.user, job.uid, job.partition, job.batch) == ("all of it", "alice", 2001, "gpu,other", True)
    assert (job.required_nodes, job.excluded_nodes, job.features) == (("gpu01",), ("gpu02", "gpu03"), "rack1")
    assert (job.requeue, job.memory_per_node, job.memory_per_cpu, job.restarts) == (False, 1000, 0, 0)
    assert job.time_limit == 86400 + 60  # Slurm rounds up to minutes
    assert job.dependency.startswith(f"afterany:{first}")
    assert abs(job.begin_time - now - 3600) < 60
    assert abs(job.submit_time - now) < 60
    assert (job.state, job.start_time, job.end_time, job.exit_code) == ("PENDING", 0, 0, -1)


def test_node_ranges(site: Site) -> None:
    expected = {("--nodes=1-3",): (1, 3), ("--nodes=2",): (2, 2)}
    jobs = {site.submit("--hold", *options): limits for options, limits in expected.items()}
    found = site.jobs()
    assert {one: (found[one].min_nodes, found[one].max_nodes) for one in jobs} == jobs


def test_a_request_larger_than_a_node_is_not_limited_to_one(site: Site) -> None:
    job = site.job(site.submit("--hold", "--gpus=6", "--ntasks=6"))
    assert job.min_nodes == 1
    assert job.max_nodes == 0 or job.max_nodes >= 2


def test_an_unsplit_array_is_one_job_a_task(site: Site) -> None:
    array = site.submit("--hold", "--array=1-3,7-11:2%2", "--gpus=1")
    tasks = {one.id: one for one in site.jobs().values() if one.array_id == int(array)}
    assert set(tasks) == {f"{array}_{task}" for task in (1, 2, 3, 7, 9, 11)}
    assert {(one.raw_id, one.gpus, one.state) for one in tasks.values()} == {(int(array), 1, "PENDING")}
    assert site.backend.job(f"{array}_9") == tasks[f"{array}_9"]


def test_many_array_tasks_are_not_cut_short(site: Site) -> None:
    array = site.submit("--hold", f"--array={','.join(str(2 * task) for task in range(60))}")
    assert sum(one.array_id == int(array) for one in site.jobs().values()) == 60


@pytest.mark.parametrize("request_", ["--gpus=1", "--gpus-per-node=1"])  # pyslurm itself reports the latter only
def test_tasks_that_were_split_and_wait_are_all_there(site: Site, request_: str) -> None:
    """squeue shows them on one line with those that were not, though each is a record of its own."""
    array = site.submit("--hold", "--array=0-3", request_)
    names = {f"{array}_{task}" for task in range(4)}
    for task in (0, 1, 2, 3):
        site.backend.hold(f"{array}_{task}")
        assert {one.id for one in site.jobs().values() if one.array_id == int(array)} == names
    site.start(f"{array}_3", "gpu04")
    site.wait(f"{array}_3", lambda job: job.state == "RUNNING")
    site.backend.hold(f"{array}_3")
    site.backend.requeue(f"{array}_3")
    site.wait(f"{array}_3", lambda job: job.state == "PENDING" and not job.completing)
    assert {one.id for one in site.jobs().values() if one.array_id == int(array)} == names


def test_tasks_that_run_keep_their_names(site: Site) -> None:
    array = site.submit("--array=0-3%1", "--gpus=1")
    site.wait(f"{array}_0", lambda job: job.state == "RUNNING")
    states = {one.id: one.state for one in site.jobs().values() if one.array_id == int(array)}
    assert states == {f"{array}_0": "RUNNING", **{f"{array}_{task}": "PENDING" for task in (1, 2, 3)}}


def test_het_components_are_marked(site: Site) -> None:
    script = "#!/bin/sh\n#SBATCH --gpus=1 --hold\n#SBATCH hetjob\n#SBATCH --gpus=2\nsleep 300\n"
    leader = site.cluster.run(["sbatch", "--parsable", "--chdir=/tmp"], user="alice", input=script).stdout.strip()
    parts = {one.id: (one.het_id, one.gpus) for one in site.jobs().values() if one.het_id == int(leader)}
    assert parts == {f"{leader}+0": (int(leader), 1), f"{leader}+1": (int(leader), 2)}


def test_shares_of_an_uneven_spread(site: Site) -> None:
    site.running("--gres=gpu:3", "--nodelist=gpu01")
    job = site.running(
        "--gpus=5", "--ntasks=5", "--gpus-per-task=1", "--nodelist=gpu[01-02]", "--nodes=2", "--mem-per-cpu=100"
    )
    shown = site.job(job.id)
    assert [(one.node, one.gpus, one.cpus, one.memory) for one in shown.shares] == [
        ("gpu01", 1, 1, 100),
        ("gpu02", 4, 4, 400),
    ]
    assert [len(one.gpu_indexes) for one in shown.shares] == [1, 4]
    assert (shown.gpus, shown.state, shown.completing) == (5, "RUNNING", False)
    assert shown.start_time >= shown.submit_time
    nodes = site.nodes()
    assert [nodes[name].gpus_allocated for name in ("gpu01", "gpu02", "gpu03")] == [4, 4, 0]


def test_a_cpu_job_holds_no_gpu(site: Site) -> None:
    job = site.running("--ntasks=3", "--mem-per-cpu=100")
    (share,) = job.shares
    assert (job.gpus, share.gpus, share.cpus, share.memory, share.gpu_indexes) == (0, 0, 3, 300, ())
    assert site.nodes()[share.node].cpus_allocated == 3


def test_jobs_of_other_partitions_are_there(site: Site) -> None:
    job = site.running("--partition=other", "--gpus=1")
    assert site.job(job.id).partition == "other"
    assert site.job(job.id).shares == job.shares


def test_an_allocation_is_no_batch_job(site: Site) -> None:
    srun = site.cluster.popen(["srun", "--gpus=1", "--job-name=interactive", "sleep", "300"], user="alice")
    try:
        found = eventually(lambda: [job for job in site.jobs().values() if job.name == "interactive" and job.shares])
        assert [(job.batch, job.gpus) for job in found] == [(False, 1)]
    finally:
        site.cluster.run(["scancel", "--name=interactive"])
        srun.wait(30)


@pytest.mark.parametrize(
    ("script", "state", "code"), [("true", "COMPLETED", 0), ("exit 3", "FAILED", 3), ("kill -9 $$", "FAILED", 137)]
)
def test_ended_jobs(site: Site, script: str, state: str, code: int) -> None:
    job_id = site.submit(script=script)
    job = site.wait(job_id, lambda job: job.state not in ("PENDING", "RUNNING") and not job.completing)
    assert (job.state, job.exit_code, job.shares) == (state, code, ())
    assert job.submit_time <= job.start_time <= job.end_time <= time.time() + 1
    assert site.job(job_id) == job
    assert site.ran(job_id) == [(job.start_time, job.end_time)]


def test_a_cancelled_job(site: Site) -> None:
    job = site.running()
    site.cluster.run(["scancel", job.id])
    assert site.wait(job.id, lambda job: job.state == "CANCELLED" and not job.completing).shares == ()


@pytest.fixture
def broken_nodes(site: Site) -> Iterator[None]:
    site.cluster.run(["scontrol", "update", "nodename=gpu03", "state=drain", "reason=bad dimm"])
    site.cluster.run(["scontrol", "update", "nodename=gpu04", "state=down", "reason=smoke"])
    yield
    site.cluster.run(["scontrol", "update", "nodename=gpu[03-04]", "state=resume"])
    eventually(lambda: all(node.usable for node in site.nodes().values()))


@pytest.mark.usefixtures("broken_nodes")
def test_drained_and_down_nodes(site: Site) -> None:
    nodes = site.nodes()
    assert {name: node.usable for name, node in nodes.items()} == {
        "gpu01": True,
        "gpu02": True,
        "gpu03": False,
        "gpu04": False,
    }
    drained = nodes["gpu03"]
    assert (drained.state, drained.flags, drained.reason) == ("IDLE", frozenset({"DRAIN"}), "bad dimm")
    assert nodes["gpu04"].state == "DOWN"
    assert nodes["gpu04"].reason == "smoke"


def test_nodes(site: Site) -> None:
    site.running("--gres=gpu:v100:1", "--ntasks=2", "--mem-per-cpu=100", "--nodelist=gpu02")
    node = site.nodes()["gpu02"]
    assert (node.state, node.flags, node.gpus, node.gpu_type, node.gpus_allocated) == (
        "MIXED",
        frozenset(),
        4,
        "v100",
        1,
    )
    assert (node.cpus, node.cpus_allocated, node.memory, node.memory_allocated) == (16, 2, 64000, 200)
    assert (node.features, node.partitions) == (("rack1",), ("gpu", "other"))


HOSTILE = [
    "x\nJobId=1 JobState=RUNNING",
    "JobState=RUNNING UserId=root(0) Priority=0",
    '"}],"jobs":[{"job_id":1}]',
    "\x1b[2J\x1b[31m[bold]markup[/]",
    "1|0|RUNNING|None\n2|x|y",
    "%i %j $(reboot) `id` ; rm -rf /",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_comments_change_no_other_field(site: Site, text: str) -> None:
    plain = site.job(site.submit("--hold", "--gpus=1"))
    before = set(site.jobs())
    evil_id = site.submit("--hold", "--gpus=1", f"--job-name={text}", f"--comment={text}")
    jobs = site.jobs()
    assert set(jobs) == before | {evil_id}
    assert jobs[plain.id] == plain
    assert _but(jobs[evil_id]) == _but(plain)
    assert (jobs[evil_id].comments.admin, jobs[evil_id].comments.user[:5]) == ("", text[:5])
    assert site.backend.job(evil_id) == jobs[evil_id]


def test_the_longest_name_and_comment_and_bytes_that_are_no_utf8(site: Site) -> None:
    """Slurm refuses comments of more than 1 KB itself."""
    site.cluster.shared.joinpath("evil.sh").write_bytes(
        b"#!/bin/sh\nlong=$(head -c 1000 /dev/zero | tr '\\0' '\\377')\n"
        b'exec sbatch --parsable --hold --chdir=/tmp --gpus=1 --comment="$long" --job-name="$long" --wrap true\n'
    )
    evil_id = site.cluster.run(["sh", "/shared/evil.sh"], user="alice").stdout.strip()
    assert _but(site.job(evil_id)) == _but(site.job(site.submit("--hold", "--gpus=1")))
    assert _but(site.backend.job(evil_id)) == _but(site.job(evil_id))


def _but(job: SlurmJob) -> dict[str, object]:
    others = ("id", "raw_id", "name", "submit_time", "comments")
    return {field: getattr(job, field) for field in job.__slots__ if field not in others}


def test_a_dependency_that_changes_while_the_job_is_held_is_shown(site: Site) -> None:
    """Nothing else of the record changes. The snapshot showed the record that the hold had left."""
    first, job = site.submit("--hold"), site.submit("--hold")
    site.backend.hold(job)
    assert site.job(job).dependency == ""
    for change, words in ((f"afterany:{first}", f"afterany:{first}"), ("", "")):
        site.cluster.run(["scontrol", "update", f"JobId={job}", f"Dependency={change}"], user="alice")
        assert site.job(job).dependency.startswith(words)
        assert bool(site.job(job).dependency) == bool(words)


def test_an_account_that_changes_while_the_job_is_held_is_shown(account_site: Site) -> None:
    """Nothing else of the record changes. The snapshot showed the record that the hold had left."""
    job = account_site.submit("--hold", "--account=first")
    account_site.backend.hold(job)
    assert account_site.job(job).account == "first"
    account_site.cluster.run(["scontrol", "update", f"JobId={job}", "Account=second"], user="alice")
    assert account_site.job(job).account == "second"
