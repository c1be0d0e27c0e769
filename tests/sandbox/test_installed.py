"""The private cluster, the demo's replay and a rehearsal, from an installed wheel: no checkout is near."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pip
import pytest

from tests import installed
from tiresias.sandbox import rootfs
from tiresias.sandbox.cluster import Cluster

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
NAME = f"installed-{os.getpid()}"
EXCHANGE = installed.ROOT / "tests/wrappers/exchange.py"
PEERS = installed.ROOT / "tests/sandbox/native/peers.py"
TRACE = (
    "job_id,submit_time,num_gpus,duration,user,vc,model,status\n"
    "long,0,4,600,,,vgg19,\nwide,30,8,300,,,resnet50,\na,60,1,60,,,alexnet,\n"
)
TRAIN = """#!/bin/bash
#SBATCH -N2 --ntasks-per-node=2 --gpus-per-node=1 -o /shared/log
tsrun python3 /shared/exchange.py /shared/address 400 0.02 70000 900 120000 400 5000 300
sleep 120
"""
RECORD = """
python3 -m venv --without-pip --system-site-packages venv
PYTHONPATH=/opt/pip venv/bin/python -m pip install -q --no-deps --no-index /opt/dist/*.whl
net=$(venv/bin/python -I -c 'from tiresias.profiler.build import libraries; print(libraries().net)')
LD_PRELOAD=$net TIRESIAS_PROFILE_DIR=/tmp/recorded python3 /opt/native/peers.py
venv/bin/tiresias profile /tmp/recorded --json
"""
TUTORIAL = "/opt/tiresias/docs/examples/tutorial/train.py"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    return installed.make(tmp_path_factory.mktemp("installed") / "venv", wheel)


def tiresias(environment: Path, folder: Path, *words: str) -> str:
    command = [str(environment / "bin/tiresias"), *words]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_cluster_has_the_examples_and_the_hooks_and_records(environment: Path, tmp_path: Path) -> None:
    """Its tree has neither make nor a compiler: the profiler's libraries are the wheel's."""
    tiresias(environment, tmp_path, "sandbox", "up", "--name", NAME, "--nodes", "2", "--suite", "trixie")
    try:
        inside = ("sandbox", "run", "--name", NAME, "--")
        shown = tiresias(environment, tmp_path, *inside, "scontrol", "show", "config")
        assert "JobSubmitPlugins        = lua" in shown
        assert "/opt/tiresias/etc/poke.sh" in shown
        tiresias(environment, tmp_path, *inside, "/opt/tiresias/etc/poke.sh")
        where = tiresias(environment, tmp_path, *inside, "python3", "-c", "import tiresias; print(tiresias.__file__)")
        assert where == "/opt/tiresias/src/tiresias/__init__.py\n"
        tiresias(environment, tmp_path, *inside, "sh", "-c", f"test -e {TUTORIAL} && ! touch /opt/tiresias/x")
        record(Cluster.find(NAME))
    finally:
        tiresias(environment, tmp_path, "sandbox", "down", "--name", NAME)


def record(cluster: Cluster) -> None:
    """tsrun's trial of the first job of a kind."""
    assert not cluster.run(["sh", "-c", "command -v make cc gcc"], check=False).stdout
    shutil.copy(EXCHANGE, cluster.shared / "exchange.py")
    (cluster.shared / "train.sh").write_text(TRAIN)
    roots = {"TIRESIAS_CONTROL_ROOT": "/shared/t/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/t/checkpoints"}
    cluster.run(["mkdir", "-p", "-m", "1777", "/shared/t", *roots.values()])
    cluster.run(["tsbatch", "--parsable", "/shared/train.sh"], user="alice", env=roots, cwd="/shared")
    log, deadline = cluster.shared / "log", time.monotonic() + 120
    while not log.exists() or "tiresias: profiled: consolidate" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text() if log.exists() else "no log"
        time.sleep(0.2)


@pytest.mark.parametrize(
    "suite", ["bookworm", pytest.param("trixie", marks=pytest.mark.long)]
)  # their versions of numpy are 1.24 and 2.2
def test_a_system_without_a_compiler_records(suite: str, wheel: Path) -> None:
    tree = rootfs.ensure(suite).path
    assert not [name for name in ("make", "cc", "gcc") if (tree / "usr/bin" / name).exists()]
    lent = {
        Path(pip.__file__).parents[0]: "/opt/pip/pip",
        wheel.parent: "/opt/dist",
        PEERS.parent: "/opt/native",
    }
    words = ["bwrap", "--die-with-parent", "--unshare-pid", "--ro-bind", str(tree), "/", "--dev", "/dev", "--proc", "/proc",
             "--tmpfs", "/tmp", "--tmpfs", "/opt", *(word for place in lent.items() for word in ("--ro-bind", *map(str, place))),
             "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp", "--chdir", "/tmp"]  # fmt: skip
    done = subprocess.run([*words, "sh", "-ec", RECORD], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["processes"]) == 2
    assert found["iterations"] >= 10


@pytest.mark.long
def test_the_demos_replay(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    size = ("--nodes", "2", "--gpus-per-node", "4", "--time-scale", "60")
    shown = tiresias(
        environment, tmp_path, "sandbox", "replay", "trace.csv", "--policy", "las", *size, "--json", "out.json"
    )
    assert "mean JCT" in shown
    kept = json.loads((tmp_path / "out.json").read_text())["policies"]["las"]["invariants"]
    assert kept["lost"] == kept["run_twice"] == 0


def test_a_rehearsal(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\nexec python3 {TUTORIAL} 5000\n")
    shown = tiresias(environment, tmp_path, "rehearse", "--sandbox", "--after", "2", "job.sh")
    assert "This job can be preempted." in shown
