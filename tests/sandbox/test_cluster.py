"""The private cluster is a real Slurm, and commands run inside it as they are given."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.cluster_tools import state, submit, wait_for, wait_state
from tiresias.errors import TiresiasError, UsageError
from tiresias.sandbox import paths
from tiresias.sandbox.cluster import Cluster

pytestmark = pytest.mark.sandbox


# -- it is a real Slurm -----------------------------------------------------------------------------------------------


def test_a_users_job_gets_its_gpus(cluster: Cluster) -> None:
    job = submit(cluster, "--gres=gpu:2", "--wrap", "id -un; echo GPUS=$CUDA_VISIBLE_DEVICES; ls /dev/fakegpu0; pwd")
    wait_state(cluster, job, "COMPLETED")
    assert (cluster.shared / f"{job}.out").read_text().split() == ["alice", "GPUS=0,1", "/dev/fakegpu0", "/home/alice"]


def test_gpus_run_out(cluster: Cluster) -> None:
    total = cluster.spec.nodes * cluster.spec.gpus_per_node
    first = submit(cluster, f"--nodes={cluster.spec.nodes}", "--gpus-per-node=4", "--wrap", "sleep 60")
    wait_state(cluster, first, "RUNNING")
    second = submit(cluster, "--gres=gpu:1", "--wrap", "true", user="bob")
    wait_state(cluster, second, "PENDING Resources")
    cluster.run(["scancel", first], user="alice")
    wait_state(cluster, second, "COMPLETED")
    assert total == 16


def test_requeue_parks_the_job_under_its_id(cluster: Cluster) -> None:
    job = submit(cluster, "--gres=gpu:1", "--wrap", "sleep 60")
    wait_state(cluster, job, "RUNNING")
    cluster.run(["scontrol", "requeue", job], user="slurm")
    wait_state(cluster, job, "PENDING BeginTime")
    assert "Restarts=1" in cluster.run(["scontrol", "show", "job", job]).stdout


def test_owner_cannot_release_an_admin_hold_and_others_cannot_requeue(cluster: Cluster) -> None:
    job = submit(cluster, "--gres=gpu:1", "--wrap", "sleep 60")
    wait_state(cluster, job, "RUNNING")
    assert cluster.run(["scontrol", "requeue", job], user="bob", check=False).returncode == 1
    cluster.run(["scontrol", "hold", job], user="slurm")
    cluster.run(["scontrol", "requeue", job], user="slurm")
    wait_state(cluster, job, "PENDING JobHeldAdmin")
    assert cluster.run(["scontrol", "release", job], user="alice", check=False).returncode == 1
    assert state(cluster, job) == "PENDING JobHeldAdmin"


def test_compiled_modules_are_shared_with_the_next_cluster_and_are_the_users_own(cluster: Cluster) -> None:
    where = "import tiresias.errors as it; print(it.__cached__)"
    compiled = cluster.run(["python3", "-c", where], user="alice").stdout.strip()
    shared = paths.bytecode_folder(cluster.spec.suite)
    assert (shared / Path(compiled).relative_to("/run/bytecode")).is_file()
    assert cluster.run(["stat", "-c", "%U", compiled]).stdout.split() == ["alice"]
    assert stat.S_IMODE(shared.parent.stat().st_mode) == 0o700
    assert cluster.run(["touch", compiled], user="bob", check=False).returncode == 1


def test_nodes_have_racks_and_both_partitions(cluster: Cluster) -> None:
    nodes = json.loads(cluster.run(["scontrol", "show", "nodes", "--json"]).stdout)["nodes"]
    assert [node["name"] for node in nodes] == cluster.spec.node_names
    assert {feature for node in nodes for feature in node["features"]} == {"rack1"}
    assert cluster.run(["sinfo", "-h", "-o", "%R"]).stdout.split() == ["gpu", "other"]


def test_pyslurm_talks_to_slurm(cluster: Cluster) -> None:
    if not cluster.has_pyslurm:
        pytest.skip("pyslurm is unavailable; the build log contains the reason")
    job = submit(cluster, "--hold", "--wrap", "true")
    program = f"import pyslurm; pyslurm.slurm_init(); print(len(pyslurm.Nodes.load()), pyslurm.Job.load({job}).state)"
    assert cluster.run(["python3", "-c", program], user="slurm").stdout.split() == ["4", "PENDING"]


def test_the_project_is_installed_inside(cluster: Cluster) -> None:
    from tiresias import __version__

    assert cluster.run(["tiresias", "--version"], user="alice").stdout.split() == ["tiresias", __version__]
    for command in ("tsbatch", "tsrun"):
        assert cluster.run(["sh", "-c", f"command -v {command}"]).returncode == 0


def test_slurmctld_killed_and_restarted_keeps_jobs_and_nodes(cluster: Cluster) -> None:
    job = submit(cluster, "--gres=gpu:1", "--wrap", "sleep 60")
    wait_state(cluster, job, "RUNNING")
    running_since, saved = time.time(), cluster.folder / "spool/ctld/job_state"
    # slurmctld saves its state some seconds after a change; what it has not saved, a kill -9 loses. It may have saved the
    # start before the test saw it, and would not save again: one more change makes it.
    submit(cluster, "--hold", "--wrap", "true")
    wait_for(lambda: saved.exists() and saved.stat().st_mtime > running_since, lambda: "slurmctld saves no state")
    before = cluster.slurmctld_pid
    cluster.kill_slurmctld()
    assert cluster.slurmctld_pid == 0
    cluster.start_slurmctld()
    assert cluster.slurmctld_pid not in (0, before)
    assert state(cluster, job).startswith("RUNNING")


# -- commands run inside ----------------------------------------------------------------------------------------------


def test_a_refused_job_is_not_taken_for_an_accepted_one(cluster: Cluster) -> None:
    """Slurm keeps it, as failed."""
    words = ["sbatch", "--job-name=too-large", "--gres=gpu:99", "--wrap=true"]
    assert cluster.run(words, user="alice", check=False).returncode == 1
    program = "from tiresias.sandbox.replay import submitter as it; import sys; print(it._accepted(sys.argv[1]))"
    cluster.run(["sbatch", "--job-name=accepted", "--hold", "--wrap=true"], user="alice")
    found = [
        cluster.run(["python3", "-c", program, name], user="alice").stdout.strip() for name in ("too-large", "accepted")
    ]
    lines = cluster.run(
        ["squeue", "-h", "--states=all", "--name=too-large,accepted", "-o", "%j %T %i"]
    ).stdout.splitlines()
    shown = {name: (state, job) for name, state, job in map(str.split, lines)}
    assert {name: state for name, (state, _) in shown.items()} == {"too-large": "FAILED", "accepted": "PENDING"}
    assert found == ["", shown["accepted"][1]]
    cluster.run(["scancel", shown["accepted"][1]], user="alice")


def test_run_passes_everything_through(cluster: Cluster) -> None:
    words = [sys.executable, "-m", "tiresias", "sandbox", "run", "--name", cluster.spec.name, "--user", "bob", "--"]
    script = "cat; echo oops >&2; exit 7"
    done = subprocess.run(
        [*words, "sh", "-c", script], input="in\n", capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "in\n", "oops\n")


def test_nothing_of_the_callers_environment_leaks_in(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "other")
    monkeypatch.setenv("LD_PRELOAD", "")
    variables = cluster.run(["env"], user="alice").stdout
    assert "SBATCH_" not in variables
    assert "LD_PRELOAD" not in variables
    assert {"HOME=/home/alice", "USER=alice", "SLURM_CONF=/etc/slurm/slurm.conf"} <= set(variables.split())


def test_hostile_words_arrive_as_they_are(cluster: Cluster) -> None:
    words = ["a b", "$(id)", "'\"", "-n", "line\nbreak", "é"]
    assert cluster.run(["printf", "%s|", *words]).stdout == "".join(f"{word}|" for word in words)


def test_a_command_that_takes_too_long_is_killed(cluster: Cluster) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.run(["sh", "-c", "sleep 4321 & sleep 4321"], timeout=0.5)
    wait_for(lambda: not cluster.run(["pgrep", "-f", "sleep 4321"], check=False).stdout, lambda: "sleep still runs")


def test_a_failing_command_is_one_line(cluster: Cluster) -> None:
    with pytest.raises(
        TiresiasError, match=r"scontrol show job 99999 in cluster .* exit 1: slurm_load_jobs error: Invalid job id"
    ):
        cluster.run(["scontrol", "show", "job", "99999"])


def test_unknown_user_and_cluster(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="no user 'mallory'"):
        cluster.run(["true"], user="mallory")
    with pytest.raises(UsageError, match="no cluster 'nowhere' is running"):
        Cluster.find("nowhere")


def test_the_tree_is_read_only_and_shared_is_everyones(cluster: Cluster) -> None:
    assert cluster.run(["touch", "/usr/bin/x"], check=False).returncode == 1
    assert cluster.run(["touch", "/opt/tiresias/x"], check=False).returncode == 1
    cluster.run(["touch", "/shared/by-alice"], user="alice")
    assert (cluster.shared / "by-alice").stat().st_uid == cluster.rootfs.uid("alice")


def test_a_users_processes_share_locks(cluster: Cluster) -> None:
    """multiprocessing keeps its locks in /dev/shm, where data loaders have their memory, too."""
    code = "import multiprocessing as mp; lock = mp.get_context('fork').Lock(); lock.acquire(); print('locked')"
    assert cluster.run(["python3", "-c", code], user="alice").stdout == "locked\n"
    assert cluster.run(["stat", "-c", "%a", "/dev/shm"]).stdout == "1777\n"


def status_of(cluster: Cluster) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tiresias", "sandbox", "status", "--json"], capture_output=True, check=True, timeout=60
    )
    return next(row for row in json.loads(done.stdout) if row["name"] == cluster.spec.name)


def test_status_lists_what_is_up(cluster: Cluster) -> None:
    row = status_of(cluster)
    assert (row["nodes"], row["suite"], row["slurm_version"][:5]) == (4, "forky", "26.05")
    wait_for(
        lambda: status_of(cluster)["nodes_up"] == 4, lambda: "not all nodes are up"
    )  # slurmctld may have restarted


# -- accounting and the other suites ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_accounting_gives_an_operator_and_limits(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of("forky", accounting=True, nodes=2)
    job = submit(cluster, "--partition=other", "--gres=gpu:1", "--wrap", "sleep 60")
    wait_state(cluster, job, "RUNNING")
    assert cluster.run(["scontrol", "requeue", job], user="bob", check=False).returncode == 1
    cluster.run(["scontrol", "hold", job], user="tiresias")
    cluster.run(["scontrol", "requeue", job], user="tiresias")
    wait_state(cluster, job, "PENDING JobHeldAdmin")
    history = cluster.run(["sacct", "-n", "-P", "-D", "-X", "-j", job, "-o", "Account,State,AllocTRES"]).stdout
    assert history.startswith("science|REQUEUED|")
    assert "gres/gpu=1" in history
    cluster.run(["sacctmgr", "-i", "modify", "user", "bob", "set", "MaxSubmitJobs=0"])
    assert "AssocMaxSubmitJobLimit" in cluster.run(["sbatch", "--wrap", "true"], user="bob", check=False).stderr


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "version"), [("trixie", "24.11"), ("bookworm", "22.05")])
def test_the_other_suites_come_up(cluster_of: Callable[..., Cluster], suite: str, version: str) -> None:
    cluster = cluster_of(suite)
    assert cluster.slurm_version.startswith(version)
    assert not cluster.has_pyslurm
    job = submit(
        cluster,
        "--partition=other",
        "--gres=gpu:2",
        "--wrap",
        "echo GPUS=$CUDA_VISIBLE_DEVICES; python3 -c 'import numpy, rich'",
    )
    wait_state(cluster, job, "COMPLETED")
    assert (cluster.shared / f"{job}.out").read_text() == "GPUS=0,1\n"
