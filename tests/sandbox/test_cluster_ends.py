"""The private cluster leaves nothing however it ends, and its name leads to no other cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.cluster_tools import living, state, submit, traces_of, wait_for, wait_state
from tiresias.errors import TiresiasError, UsageError
from tiresias.sandbox import paths
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]


def test_down_leaves_nothing(own: Callable[..., Cluster]) -> None:
    cluster = own()
    wait_state(cluster, submit(cluster, "--partition=other", "--wrap", "sleep 600"), "RUNNING")
    assert len(traces_of(cluster)) > 5  # the search finds what is there
    cluster.down()
    assert traces_of(cluster) == []
    assert not cluster.folder.exists()
    assert cluster.spec.name not in [other.spec.name for other in Cluster.all()]


@pytest.mark.parametrize("victim", ["launcher", "bwrap", "init"])
def test_kill_9_leaves_nothing(own: Callable[..., Cluster], victim: str) -> None:
    cluster = own()
    bwrap = int(Path(f"/proc/{cluster.launcher.pid}/task/{cluster.launcher.pid}/children").read_text().split()[0])
    os.kill({"launcher": cluster.launcher.pid, "bwrap": bwrap, "init": cluster.init.pid}[victim], signal.SIGKILL)
    wait_for(lambda: not traces_of(cluster), lambda: f"left: {traces_of(cluster)}", 10)
    wait_for(lambda: not cluster.alive(), lambda: "its init has not ended", 10)
    with pytest.raises(UsageError, match="is running"):
        Cluster.find(cluster.spec.name)
    assert Cluster.remove_dead(cluster.spec.name)
    assert not cluster.folder.exists()


def test_a_dead_cluster_is_no_obstacle(own: Callable[..., Cluster]) -> None:
    cluster = own()
    cluster.kill()
    again = own(name=cluster.spec.name)
    assert again.node_states() == ["idle", "idle"]


def test_kill_9_of_up_leaves_a_cluster_that_is_written_down_or_none() -> None:
    """Killed at a moment of its own in each round; what it left is found by its name and goes down."""
    name = f"cut-{os.getpid()}"
    folder = paths.cluster_folder(name)
    words = [sys.executable, "-m", "tiresias", "sandbox", "up", "--name", name, "--nodes", "1"]
    for moment in (0.15, 0.2, 0.25, 0.3, 0.5):
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) as up:
            time.sleep(moment)
            up.kill()
        wait_for(
            lambda: (folder / "cluster.json").exists() or not living(folder), lambda: f"left: {living(folder)}", 20
        )
        for cluster in Cluster.all():
            if cluster.spec.name == name:
                cluster.down()
        Cluster.remove_dead(name)
        wait_for(lambda: not living(folder), lambda: f"left: {living(folder)}", 20)


def test_two_clusters_side_by_side_are_isolated(own: Callable[..., Cluster]) -> None:
    one, two = own(), own(nodes=3, gpus_per_node=2, gpu_type="v100")
    job = submit(one, "--partition=other", "--hold", "--wrap", "true")
    assert state(one, job).startswith("PENDING")
    assert state(two, job) == ""
    assert len(two.node_states()) == 3
    two.down()
    assert state(one, job).startswith("PENDING")


@pytest.mark.parametrize("name", ["../x", "", "a/b", "x" * 41, "a b", "."])
def test_a_name_leads_nowhere_else(name: str) -> None:
    for use in (Cluster.find, Cluster.remove_dead, lambda name: ClusterSpec(name=name)):
        with pytest.raises(UsageError, match="use at most 40 letters"):
            use(name)


def test_a_name_is_taken_once(own: Callable[..., Cluster]) -> None:
    cluster = own()
    with pytest.raises(UsageError, match="is already running"):
        Cluster.up(cluster.spec)
    assert cluster.node_states() == ["idle", "idle"]


def test_a_slurm_that_does_not_start_is_explained_in_one_line() -> None:
    spec = ClusterSpec(name=f"broken-{os.getpid()}", nodes=1, settings={"SelectType": "select/nonsense"})
    with pytest.raises(TiresiasError, match=r"did not start: slurmctld.log: .*fatal: .*plugin") as error:
        Cluster.up(spec)
    assert "\n" not in str(error.value)
    assert spec.name not in [cluster.spec.name for cluster in Cluster.all()]
    assert Cluster.remove_dead(spec.name)  # its logs were kept
