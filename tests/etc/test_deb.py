"""The life of the Debian package in a clean tree: an older one is upgraded, seen by the doctor, put to work, removed, purged."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.rootfs import Rootfs
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.slurm_plugin.state.schema import SCHEMA

ROOT = Path(__file__).parents[2]
TRAIN = "exec python3 /opt/tiresias/tests/slurm_plugin/controller/train.py"
PACKAGED = {"PYTHONPATH": ""}  # not the checkout's
EXACT = {
    **PACKAGED,
    "TIRESIAS_MODE": "exact",
    "TIRESIAS_PERIOD": "1",
    "TIRESIAS_POLICY_NAME": "las",
    "TIRESIAS_POLICY_MIN_RUN": "1",
    "TIRESIAS_POLICY_MIN_RUN_COST_FACTOR": "0",
    "TIRESIAS_POLICY_THRESHOLDS": "6",
}
pytestmark = [
    pytest.mark.ci,
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.xdist_group("packages"),
    pytest.mark.timeout(900),  # the first test builds the package
    pytest.mark.skipif(os.geteuid() != 0, reason="a tree is laid over another by root only"),
]


class Tree:
    """A clean Debian with Slurm, and a layer over it that may be written to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "merged"

    def over(self, tree: Rootfs) -> Rootfs:
        for name in ("upper", "work", "merged"):
            (self.folder / name).mkdir()
        layers = f"lowerdir={tree.path},upperdir={self.folder}/upper,workdir={self.folder}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(self.path)], check=True)
        for name in ("tiresias", "tsbatch", "tsrun"):  # the sandbox's own, which run the checkout
            (self.path / "usr/local/bin" / name).unlink()
        return Rootfs(tree.suite, self.path)

    def dpkg(self, *words: str) -> str:
        """What it prints."""
        inside = [
            "bwrap",
            "--bind",
            str(self.path),
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            "/run",
            "--clearenv",
        ]
        inside += ["--setenv", "PATH", "/usr/sbin:/usr/bin:/sbin:/bin", "--setenv", "DEBIAN_FRONTEND", "noninteractive"]
        done = subprocess.run([*inside, "dpkg", *words], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def files(self) -> set[str]:
        """What packages own, and what they leave; not dpkg's own books."""
        found = (path for place in ("usr", "etc", "var/lib") for path in (self.path / place).rglob("*"))
        names = {str(path.relative_to(self.path)) for path in found if path.is_file()}
        return {name for name in names if "/dpkg/" not in name and "__pycache__" not in name}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(tmp_path)
    yield tree
    subprocess.run(["umount", "-l", str(tree.path)], check=False)


def until(ready: Callable[[], object], words: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, words
        time.sleep(0.1)


def test_from_installing_to_removing(deb: Path, tree: Tree, tmp_path: Path) -> None:
    clean: list[set[str]] = []

    def install(rootfs: Rootfs) -> Rootfs:
        over = tree.over(rootfs)
        clean.append(tree.files())
        shutil.copy(older(deb, tmp_path / "older"), tree.path / "tmp/older.deb")
        shutil.copy(deb, tree.path / "tmp/it.deb")
        tree.dpkg("-i", "/tmp/older.deb")
        upgrade(tree, clean[0])
        return over

    spec = ClusterSpec(name=f"deb-{os.getpid()}", nodes=4, accounting=True, settings={"KillWait": "5"})
    cluster = Cluster.up(spec, over=install)
    slurms = configuration(cluster)
    try:
        prepare(cluster)
        look(cluster)
        work(cluster)
        migrated(cluster)
        assert configuration(cluster) == slurms
    finally:
        cluster.down()
    tree.dpkg("--remove", "slurm-tiresias")
    # what jobs had is kept, too
    kept = {name for name in tree.files() - clean[0] if not name.startswith("var/lib/tiresias/")}
    # the last: what the admin did not take
    names = ("poke.sh", "primary.sh", "tiresias.toml", "tiresias.toml.dpkg-dist")
    assert kept == {f"etc/tiresias/{name}" for name in names}
    tree.dpkg("--purge", "slurm-tiresias")
    assert tree.files() == clean[0]
    assert not list(tree.path.glob("usr/lib/python3/dist-packages/*tiresias*")), "bytecode stays"


SHARE = "usr/share/slurm-tiresias"
CHANGED = '[preemption]\nsignal = "USR1"\n'


def older(deb: Path, folder: Path) -> Path:
    """The package as an earlier version may have been: other units, another configuration, and a file that is no more."""
    subprocess.run(["dpkg-deb", "-R", str(deb), str(folder)], check=True, timeout=60)
    control = folder / "DEBIAN/control"
    control.write_text(control.read_text().replace("\nVersion: ", "\nVersion: 0~older+"))
    for name in ("usr/lib/systemd/system/tiresias-controller.service", "etc/tiresias/tiresias.toml", f"{SHARE}/gone"):
        with (folder / name).open("a") as file:
            file.write("# older\n")
    package = folder.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "-z1", "--root-owner-group", "-b", str(folder), str(package)], check=True, timeout=60)
    return package


def upgrade(tree: Tree, clean: set[str]) -> None:
    """Of a version whose configuration an admin has changed."""
    configuration = tree.path / "etc/tiresias/tiresias.toml"
    configuration.write_text(CHANGED)
    assert (tree.path / SHARE / "gone").exists()
    tree.dpkg("--force-confold", "-i", "/tmp/it.deb")
    assert configuration.read_text() == CHANGED
    assert not (tree.path / SHARE / "gone").exists()
    unit = tree.path / "usr/lib/systemd/system/tiresias-controller.service"
    assert unit.read_text() == (ROOT / "etc/tiresias-controller.service").read_text()
    added = {f"/{name}" for name in tree.files() - clean if name.startswith("usr/")}
    assert added
    assert added <= set(tree.dpkg("--listfiles", "slurm-tiresias").splitlines()), "of no package"


def configuration(cluster: Cluster) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (cluster.folder / "etc").iterdir() if path.is_file()}


def migrated(cluster: Cluster) -> None:
    """The state database that the first version left is migrated with its content, and a backup copy exists."""
    folder = cluster.folder / "lib"
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db:
        assert db.execute("select value from meta where name = 'schema'").fetchone() == (str(SCHEMA),)
        assert db.execute("select count(*) from run where key = '7@1000'").fetchone()[0] >= 2
    assert (folder / "journal.schema-1.sqlite").exists()


def prepare(cluster: Cluster) -> None:
    """What an admin does by hand (README), and systemd for the unit; and the state that the first version left."""
    cluster.shared.chmod(0o1777)
    for folder in ("control", "checkpoints"):
        cluster.run(["install", "-d", "-m", "1777", f"/shared/tiresias/{folder}"])
    cluster.run(["install", "-d", "-o", "tiresias", "-m", "755", "/run/tiresias"])
    cluster.run(["install", "-d", "-o", "tiresias", "-m", "700", "/var/lib/tiresias"])
    with closing(sqlite3.connect(cluster.folder / "lib/journal.sqlite")) as db:
        db.executescript((ROOT / "tests/slurm_plugin/state/schemas/1.sql").read_text())
    cluster.run(["chown", "tiresias", "/var/lib/tiresias/journal.sqlite"])
    cluster.run(["chmod", "600", "/var/lib/tiresias/journal.sqlite"])


def look(cluster: Cluster) -> None:
    done = cluster.run(["/usr/bin/tiresias", "doctor", "--json"], user="tiresias", env=PACKAGED, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (rights,) = [one for one in json.loads(done.stdout) if one["about"] == "rights"]
    assert rights["level"] == "fine", rights


def work(cluster: Cluster) -> None:
    """A job gives way to another and goes on; what waits when the package is removed is Slurm's."""
    unit = (ROOT / "etc/tiresias-controller.service").read_text()
    (start,) = [line.partition("=")[2].split() for line in unit.splitlines() if line.startswith("ExecStart=")]
    with running(cluster, start) as controller:
        until(lambda: status(cluster), "it does not answer")
        whale = submit(
            cluster, "alice", 16, f"{TRAIN} 300"
        )  # it still trains when the small job arrives, on any machine
        until(lambda: '"preemptable": true' in status(cluster), "it cannot be preempted")
        small = submit(cluster, "bob", 1, "sleep 1")
        until(lambda: "JobState=COMPLETED" in show(cluster, small), "it does not start")
        until(lambda: re.search(r"^from step [1-9]", output(cluster, whale), re.MULTILINE), "it does not go on")
        assert "Restarts=1" in show(cluster, whale)
        cluster.run(["scancel", whale], user="alice")
        blocker, waiting = submit(cluster, "alice", 16, "sleep 300"), submit(cluster, "bob", 16, "true")
        until(lambda: "JobState=RUNNING" in show(cluster, blocker), "it does not start")
        until(lambda: "Priority=0 " in show(cluster, waiting), "it is not held")
        removed = cluster.run(["sh", "/var/lib/dpkg/info/slurm-tiresias.prerm", "remove"], env=PACKAGED, check=False)
        assert removed.returncode == 0, removed.stderr
        assert controller.wait(60) == 0
        assert "Priority=0 " not in show(cluster, waiting)


@contextmanager
def running(cluster: Cluster, start: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Its output is printed where something fails."""
    log = cluster.log / "controller.log"
    with log.open("wb") as output:
        process = cluster.popen(
            start, user="tiresias", env=EXACT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    except BaseException:
        print(
            log.read_text(errors="replace")[-3000:],
            status(cluster)[-3000:],
            cluster.run(["sh", "-c", "scontrol show job; tail -n 20 /shared/out-*"]).stdout,
        )
        raise
    finally:
        process.kill()
        process.wait()


def submit(cluster: Cluster, user: str, gpus: int, command: str) -> str:
    size = [f"--gpus={gpus}", f"--ntasks={gpus}", "--gpus-per-task=1", "--output=/shared/out-%j"]
    words = ["/usr/bin/tsbatch", "--parsable", *size, "--wrap", command]
    return cluster.run(words, user=user, env=PACKAGED, cwd="/tmp").stdout.strip()


def status(cluster: Cluster) -> str:
    return cluster.run(["/usr/bin/tiresias", "status", "--json"], user="alice", env=PACKAGED, check=False).stdout


def output(cluster: Cluster, job: str) -> str:
    return (cluster.shared / f"out-{job}").read_text()


def show(cluster: Cluster, job: str) -> str:
    return cluster.run(["scontrol", "show", "job", "-o", job], check=False).stdout
