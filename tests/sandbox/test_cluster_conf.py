"""The text of slurm.conf: pure, so tested without a cluster."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tiresias.errors import UsageError
from tiresias.sandbox.slurm_conf import ClusterSpec, cgroup_conf, gres_conf, slurm_conf


def keys(spec: ClusterSpec, *, job_submit: bool = True, hooks: bool = True) -> dict[str, str]:
    lines = slurm_conf(spec, job_submit=job_submit, hooks=hooks).splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith(("NodeName", "PartitionName")))


def nodes(spec: ClusterSpec) -> list[str]:
    return [
        line for line in slurm_conf(spec, job_submit=False, hooks=False).splitlines() if line.startswith("NodeName")
    ]


def test_a_setting_replaces_the_generated_line_and_others_are_added() -> None:
    found = keys(ClusterSpec(settings={"KillWait": "5", "PriorityType": "priority/multifactor"}))
    assert (found["KillWait"], found["PriorityType"]) == ("5", "priority/multifactor")


def test_shrinking_a_running_job_is_forbidden_in_either_scheduler() -> None:
    for scheduler in ("builtin", "backfill"):
        found = keys(ClusterSpec(scheduler=scheduler))
        assert found["SchedulerType"] == f"sched/{scheduler}"
        assert "disable_job_shrink" in found["SchedulerParameters"].split(",")
        assert "requeue_delay" not in found["SchedulerParameters"]


def test_hooks_are_there_only_when_requested() -> None:
    assert {"JobSubmitPlugins", "EpilogSlurmctld"} <= keys(ClusterSpec()).keys()
    assert not {"JobSubmitPlugins", "EpilogSlurmctld"} & keys(ClusterSpec(), job_submit=False, hooks=False).keys()


def test_nodes_have_their_own_port_and_rack() -> None:
    found = nodes(ClusterSpec(nodes=12))
    assert len(found) == len({line.split("Port=")[1].split()[0] for line in found}) == 12
    assert [line.split("Feature=")[1].split()[0] for line in found] == ["rack1"] * 5 + ["rack2"] * 5 + ["rack3"] * 2
    assert ClusterSpec(nodes=120).node_names[0] == "gpu001"


def test_sockets_share_cpus_and_gpus() -> None:
    spec = ClusterSpec(nodes=1, sockets_per_node=2)
    assert "CPUs=16 Sockets=2 CoresPerSocket=8 RealMemory=64000 Feature=rack1,socket:2 Gres=gpu:4" in nodes(spec)[0]
    assert gres_conf(spec).splitlines() == [
        "Name=gpu File=/dev/fakegpu[0-1] Cores=0-7",
        "Name=gpu File=/dev/fakegpu[2-3] Cores=8-15",
    ]
    with pytest.raises(UsageError, match="gpus_per_node is 3"):
        ClusterSpec(sockets_per_node=2, gpus_per_node=3)


@pytest.mark.parametrize(
    ("gpus", "kind", "gres", "node"),
    [
        (4, "", "Name=gpu File=/dev/fakegpu[0-3]\n", "Gres=gpu:4"),
        (1, "v100", "Name=gpu Type=v100 File=/dev/fakegpu0\n", "Gres=gpu:v100:1"),
        (0, "", "", ""),
    ],
)
def test_gpus(gpus: int, kind: str, gres: str, node: str) -> None:
    spec = ClusterSpec(gpus_per_node=gpus, gpu_type=kind)
    assert gres_conf(spec) == gres
    assert all(line.partition("Gres=")[1] + line.partition("Gres=")[2] == node for line in nodes(spec))


def test_types_with_numbers_and_shared_gpus() -> None:
    spec = ClusterSpec(nodes=1, gpus_per_node=7, gpu_type="a100:1,1g.10gb:6", shared_gpus="shard:4")
    assert nodes(spec)[0].endswith("Gres=gpu:a100:1,gpu:1g.10gb:6,shard:28")
    assert keys(spec)["GresTypes"] == "gpu,shard"
    assert gres_conf(spec).splitlines() == [
        "Name=gpu Type=a100 File=/dev/fakegpu0",
        "Name=gpu Type=1g.10gb File=/dev/fakegpu[1-6]",
        "Name=shard Count=28",
    ]
    with pytest.raises(UsageError, match="one socket with 4 GPUs cannot have these"):
        ClusterSpec(gpu_type="a100:1,1g.10gb:6")
    for options in ({"gpu_type": "a100:"}, {"gpu_type": "a100:x"}, {"shared_gpus": "shard"}, {"shared_gpus": "cpu:4"}):
        with pytest.raises(UsageError, match=r"is \S+: write "):
            ClusterSpec(**options)  # type: ignore[arg-type]


def test_only_accounting_names_a_storage() -> None:
    assert "AccountingStorageType" not in keys(ClusterSpec())
    assert keys(ClusterSpec(accounting=True))["AccountingStorageTRES"] == "gres/gpu"
    assert (ClusterSpec().daemon_user, ClusterSpec(accounting=True).daemon_user) == ("slurm", "tiresias")


def test_slurm_22_cannot_disable_cgroups() -> None:
    assert (cgroup_conf("bookworm"), cgroup_conf("forky")) == ("CgroupPlugin=cgroup/v1\n", "CgroupPlugin=disabled\n")


@pytest.mark.parametrize(
    "options", [{"nodes": 0}, {"nodes": 4001}, {"gpus_per_node": -1}, {"gpus_per_node": 65}, {"cpus_per_node": 0}]
)
def test_impossible_sizes_are_refused(options: dict[str, int]) -> None:
    (what, value), *_ = options.items()
    with pytest.raises(UsageError, match=rf"{what} is {value}: it must be from \d+ to \d+"):
        ClusterSpec(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["up", "--slurm-conf-line", "nonsense"], "tiresias: --slurm-conf-line 'nonsense': write KEY=VALUE\n"),
        (["up", "--nodes", "0"], "tiresias: nodes is 0: it must be from 1 to 4000\n"),
        (["run"], "tiresias: nothing to run: `tiresias sandbox run -- COMMAND`\n"),
        (["down", "--name", "../.."], "tiresias: cluster name '../..': use at most 40 letters, digits, - and _\n"),
        (
            ["down", "--name", "nowhere"],
            "tiresias: no cluster 'nowhere': `tiresias sandbox status` lists running clusters\n",
        ),
    ],
)
def test_mistakes_on_the_command_line_are_one_line_and_exit_2(words: list[str], complaint: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tiresias", "sandbox", *words], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", complaint)
