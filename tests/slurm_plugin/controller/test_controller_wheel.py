"""Jobs in environments with slurm-tiresias-checkpoint and nothing else of the project: preempted and resumed on a real Slurm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.sandbox import rootfs

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
HERE = "/opt/tiresias/tests/slurm_plugin/controller"  # the checkout, as the cluster sees it
WHICH = "import sys, tiresias.checkpoint; print(sys.prefix, tiresias.checkpoint.__file__, flush=True)"
# The kernel lets a user mount /proc for PIDs of its own only where nothing covers the present one. The private cluster covers two
# of its folders.
UNCOVER_PROC = """
import ctypes
for line in open("/proc/mounts"):
    if line.split()[1].startswith("/proc/"):
        assert not ctypes.CDLL(None).umount2(line.split()[1].encode(), 0), line
"""
LIBRARY = "slurm_tiresias_checkpoint/tiresias/checkpoint/__init__.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT / "etc/packages/checkpoint", check=True, capture_output=True)
    return next(out.glob("*.whl"))


def link(source: Path, target: Path) -> None:
    """Copy by hard links: the trees and the clusters are on one file system, and no program writes to the files."""
    ignored = shutil.ignore_patterns("__pycache__", "EXTERNALLY-MANAGED")
    shutil.copytree(source, target, symlinks=True, copy_function=os.link, ignore=ignored)


def install(wheel: Path, folder: Path) -> None:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-index",
        "--no-compile",
    ]
    subprocess.run([*pip, "--target", str(folder), str(wheel)], check=True)


def preempted_once(centre: Centre, command: str) -> str:
    """Let a job be preempted, resume and complete; return its output."""
    large = centre.submit(command=f"unset PYTHONPATH; {command}", gpus=16, by="tsbatch")
    centre.wait_until_preemptable(large)
    small = centre.submit(command="sleep 0.2", user="bob")
    centre.wait_for_state(small, "COMPLETED")
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "1", centre.output(large)
    output = str(centre.output(large))
    assert "run 1 resumes from step" in output
    assert "done at step 80" in output
    return output


@pytest.mark.long
def test_a_conda_environment_that_was_moved(centre: Centre, wheel: Path) -> None:
    """A prefix with another Python than the cluster's, activated through PATH."""
    tree, built = rootfs.ensure("bookworm").path, centre.cluster.shared / "built"
    (built / "bin").mkdir(parents=True)
    os.link(tree / "usr/bin/python3.11", built / "bin/python3.11")
    (built / "bin/python").symlink_to("python3.11")
    link(tree / "usr/lib/python3.11", built / "lib/python3.11")
    install(wheel, built / "lib/python3.11/dist-packages")
    prefix = built.rename(centre.cluster.shared / "environment")
    (prefix / "bin/activate").write_text(
        'export CONDA_PREFIX=/shared/environment CONDA_SHLVL=1 PATH="/shared/environment/bin:$PATH"\n'
    )
    output = preempted_once(
        centre, f". /shared/environment/bin/activate; python -c '{WHICH}'; exec python {HERE}/train.py 4"
    )
    assert output.count(f"/shared/environment /shared/environment/lib/python3.11/dist-packages/{LIBRARY}") == 2


@pytest.fixture(scope="module")
def images() -> list[str]:
    """Return the container trees that these tests have made."""
    return []


def image(centre: Centre, wheel: Path, images: list[str]) -> str:
    """Make a Debian tree of another release, with the wheel and without Slurm's commands; return its path in the cluster."""
    tree = centre.cluster.shared / "image"
    if not images:
        images.append("/shared/image")
        debian = rootfs.ensure("bookworm").path
        for name in ("usr/bin", "usr/lib/python3.11", "usr/lib/x86_64-linux-gnu", "usr/lib64"):
            link(debian / name, tree / name)
        for name in ("bin", "lib", "lib64"):
            (tree / name).symlink_to(f"usr/{name}")
        for command in ("sbatch", "scontrol", "squeue", "srun"):
            (tree / "usr/bin" / command).unlink()
        for name in ("proc", "tmp", "shared/tiresias"):
            (tree / name).mkdir(parents=True)
        install(wheel, tree / "usr/local/lib/python3.11/dist-packages")
        shutil.copy(Path(__file__).with_name("train.py"), tree / "train.py")
    return images[0]


@pytest.mark.parametrize(
    "own_pids", [pytest.param(False, marks=pytest.mark.long), True], ids=["the host's PIDs", "PIDs of its own"]
)
def test_a_container(centre: Centre, wheel: Path, images: list[str], own_pids: bool) -> None:
    """Entered by the user, without privileges. With PIDs of its own the checkpoint signal cannot reach it."""
    tree = image(centre, wheel, images)
    if own_pids:
        centre.cluster.run(["python3", "-c", UNCOVER_PROC])
    pids = "--pid --fork --kill-child" if own_pids else ""
    enter = f"unshare --user --map-current-user --keep-caps --mount {pids} python3 {HERE}/container.py {tree} /shared/tiresias --"
    python = "/usr/bin/python3.11"
    shell = f'{python} -c "{WHICH}"; ls /shared; exec {python} /train.py 4'
    output = preempted_once(centre, f"exec {enter} /bin/sh -c '{shell}'")
    assert output.count(f"/usr /usr/local/lib/python3.11/dist-packages/{LIBRARY}\ntiresias\n") == 2
    assert f"checkpoint signal sent to {0 if own_pids else 1} processes on this node" in output
