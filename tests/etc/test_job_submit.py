"""etc/job_submit.lua inside a real slurmctld: which jobs wait for the controller, and that nothing else is ever changed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tiresias.sandbox.cluster import Cluster

pytestmark = pytest.mark.sandbox
RUN, WAIT = "/run/tiresias", 37
SUITES = ["forky", "trixie", "bookworm"]


@pytest.fixture(params=SUITES)
def slurm(request: pytest.FixtureRequest, cluster_of: object) -> Iterator[Cluster]:
    cluster = cluster_of(request.param)  # type: ignore[operator]
    lease(cluster, f"{int(time.time()) + 60}\ngpu\ngpu\n{WAIT}\nbob\nvip\n")
    yield cluster
    cluster.run(["rm", "-f", f"{RUN}/lease", f"{RUN}/arrivals"], user="slurm")


def lease(cluster: Cluster, text: str) -> None:
    cluster.run(["sh", "-c", f"cat > {RUN}/lease"], user="slurm", input=text)


def wait_given(cluster: Cluster, *options: str, user: str = "alice") -> int:
    """Seconds from submission until Slurm may start the job."""
    command = ["sbatch", "--parsable", *options, "--wrap", "sleep 60"]
    job = cluster.run(command, user=user, cwd="/tmp").stdout.strip()
    shown = cluster.run(["scontrol", "show", "job", "-o", job], user=user).stdout.splitlines()[0]
    assert "Reason=JobHeldAdmin" not in shown
    words = dict(word.split("=", 1) for word in shown.split() if "=" in word)
    return seconds(words["EligibleTime"]) - seconds(words["SubmitTime"])


def seconds(stamp: str) -> int:
    return int(time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S")))


def arrivals(cluster: Cluster) -> int:
    return int(cluster.run(["sh", "-c", f"wc -c < {RUN}/arrivals || echo 0"], user="slurm", check=False).stdout or 0)


def test_gpu_jobs_of_managed_partitions_wait(slurm: Cluster) -> None:
    ways = [
        ["--gpus=1"],
        ["--gres=gpu:1"],
        ["--gpus-per-node=1"],
        ["--ntasks=1", "--gpus-per-task=1"],
        ["-p", "gpu", "--gpus=1"],
        ["--array=0-3", "--gpus=1"],
        ["--begin=now", "--gpus=1"],
    ]
    found = {" ".join(way): wait_given(slurm, *way) for way in ways}
    assert all(abs(waited - WAIT) <= 1 for waited in found.values()), found
    assert arrivals(slurm) == len(ways)


def test_all_others_are_left_alone(slurm: Cluster) -> None:
    ways = [["-p", "other", "--gpus=1"], ["-p", "gpu,other", "--gpus=1"], ["-n1"], ["--gres=gpu:0"]]
    found = {" ".join(way): wait_given(slurm, *way) for way in ways}
    assert all(waited <= 1 for waited in found.values()), found
    assert arrivals(slurm) == 0


def test_exempt_users_and_accounts_are_left_alone(slurm: Cluster) -> None:
    assert wait_given(slurm, "--gpus=1", user="bob") <= 1
    assert wait_given(slurm, "--gpus=1", "--account=vip") <= 1
    assert abs(wait_given(slurm, "--gpus=1", "--account=viper") - WAIT) <= 1


def test_a_later_begin_time_stays_the_users(slurm: Cluster) -> None:
    assert abs(wait_given(slurm, "--begin=now+3600", "--gpus=1") - 3600) <= 2


def test_heterogeneous_jobs_are_left_alone(slurm: Cluster) -> None:
    slurm.run(["sbatch", "--gpus=1", ":", "--gpus=1", "--wrap", "sleep 60"], user="alice", cwd="/tmp")
    assert "BeginTime" not in slurm.run(["squeue", "-h", "-o", "%r"], user="alice").stdout
    assert arrivals(slurm) == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "1\ngpu\ngpu\n9\n\n\n",
        "99999999999\n",
        "99999999999\ngpu\ngpu\n",
        "99999999999\n\n\n9\n\n\n",
        "\n" * 9000,
    ],
)
def test_without_a_good_lease_it_does_nothing(slurm: Cluster, text: str) -> None:
    lease(slurm, text)
    assert wait_given(slurm, "--gpus=1") <= 1


def test_without_a_lease_it_does_nothing(slurm: Cluster) -> None:
    slurm.run(["rm", f"{RUN}/lease"], user="slurm")
    assert wait_given(slurm, "--gpus=1") <= 1


def test_srun_waits_and_then_runs(slurm: Cluster) -> None:
    lease(slurm, f"{int(time.time()) + 60}\ngpu\ngpu\n2\n\n\n")
    done = slurm.run(["srun", "--gpus=1", "echo", "ran"], user="alice", cwd="/tmp", timeout=60)
    assert done.stdout == "ran\n"
    assert "queued and waiting" in done.stderr
