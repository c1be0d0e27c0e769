"""The private cluster is a real Slurm, and it leaves nothing however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiresias.errors import TiresiasError, UsageError
from tiresias.sandbox import paths
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

pytestmark = pytest.mark.sandbox


def wait_for(done: Callable[[], bool], what: Callable[[], str], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


def living(folder: Path, namespace: str = "") -> list[str]:
    """Living processes that were started from a cluster's folder, or sit in its network."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            state = (proc / "stat").read_text().rpartition(")")[2].split()[0]
            command = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            network = str((proc / "ns/net").readlink())
        except OSError:
            continue
        if state != "Z" and (f"{folder}/" in command or network == namespace):
            found.append(f"{proc.name} {command}")
    return found


def traces_of(cluster: Cluster) -> list[str]:
    """Also mounts of the folder that this machine sees."""
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(cluster.folder) in line]
    return mounts + living(cluster.folder, NAMESPACES.get(cluster.folder, ""))


NAMESPACES: dict[Path, str] = {}


@pytest.fixture
def own() -> Iterator[Callable[..., Cluster]]:
    """Starts a cluster for one test, because the test ends it."""
    made: list[Cluster] = []

    def up(**options: object) -> Cluster:
        spec = ClusterSpec(**{"name": f"own-{os.getpid()}-{len(made)}", "nodes": 2, **options})  # type: ignore[arg-type]
        made.append(Cluster.up(spec, report=print))
        NAMESPACES[made[-1].folder] = str(Path(f"/proc/{made[-1].init.pid}/ns/net").readlink())
        return made[-1]

    yield up
    for cluster in made:
        cluster.down()


def submit(cluster: Cluster, *words: str, user: str = "alice") -> str:
    return cluster.run(["sbatch", "--parsable", "--output=/shared/%j.out", *words], user=user).stdout.strip()


def state(cluster: Cluster, job: str) -> str:
    return cluster.run(["squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r"], check=False).stdout.strip()


def wait_state(cluster: Cluster, job: str, expected: str) -> None:
    wait_for(
        lambda: state(cluster, job).startswith(expected),
        lambda: f"job {job} is {state(cluster, job)!r}, not {expected}",
    )


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


# -- hooks ------------------------------------------------------------------------------------------------------------

LISTEN = """
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind('/run/tiresias/poke.sock')
os.chmod('/run/tiresias/poke.sock', 0o666)
print('ready', flush=True)
s.settimeout(20)
for _ in range(2):
    print(s.recv(100).decode()[-4:], flush=True)
"""


def test_the_end_of_each_job_pokes_the_daemon(own: Callable[..., Cluster]) -> None:
    cluster = own()
    with cluster.popen(["python3", "-c", LISTEN], user="slurm", stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "ready\n"
        first, second = (submit(cluster, "--partition=other", "--wrap", "true") for _ in range(2))
        assert daemon.stdout.read() == "poke\npoke\n"
        assert {state(cluster, job).split()[0] for job in (first, second)} <= {"COMPLETING", "COMPLETED"}


def test_a_daemon_that_hangs_delays_no_job(own: Callable[..., Cluster]) -> None:
    """Its socket's queue is full, and no program reads. Every job still starts and ends."""
    cluster = own()
    hang = (
        "import os, socket, time; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('/run/tiresias/poke.sock'); "
        "os.chmod('/run/tiresias/poke.sock', 0o666); print(flush=True); time.sleep(600)"
    )
    with cluster.popen(["python3", "-c", hang], user="slurm", stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        jobs = [submit(cluster, "--partition=other", "--wrap", "true") for _ in range(12)]
        for job in jobs:
            wait_state(cluster, job, "COMPLETED")
        daemon.kill()
        cluster.run(["pkill", "-9", "-f", "poke.sock"], check=False)


HOLD = (
    "function slurm_job_submit(job, parts, uid) job.priority = 0 return slurm.SUCCESS end\n"
    "function slurm_job_modify(job, record, parts, uid) return slurm.SUCCESS end\n"
)


def test_a_hold_by_job_submit_is_the_users_own_until_an_operator_holds(own: Callable[..., Cluster]) -> None:
    """Why the controller holds each new job again: what job_submit.lua holds, the owner may release."""
    cluster = own(settings={"JobSubmitPlugins": "lua"})
    (cluster.folder / "etc/job_submit.lua").write_text(HOLD)
    cluster.run(["scontrol", "reconfigure"])
    job = submit(cluster, "--partition=other", "--wrap", "true")
    assert state(cluster, job) == "PENDING JobHeldUser"
    cluster.run(["scontrol", "hold", job], user="slurm")
    assert state(cluster, job) == "PENDING JobHeldAdmin"
    assert cluster.run(["scontrol", "release", job], user="alice", check=False).returncode == 1
    cluster.run(["scontrol", "release", job], user="slurm")
    wait_state(cluster, job, "COMPLETED")


def test_poke_without_a_daemon_is_harmless(cluster: Cluster) -> None:
    assert cluster.run(["/opt/tiresias/etc/poke.sh"], user="slurm").returncode == 0


# -- ends -------------------------------------------------------------------------------------------------------------


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


def test_status_lists_what_is_up(cluster: Cluster) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tiresias", "sandbox", "status", "--json"], capture_output=True, check=True, timeout=60
    )
    row = next(row for row in json.loads(done.stdout) if row["name"] == cluster.spec.name)
    assert (row["nodes"], row["nodes_up"], row["suite"], row["slurm_version"][:5]) == (4, 4, "forky", "26.05")


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
