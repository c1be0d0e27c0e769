"""The private cluster from the Debian package: in a clean tree where it is installed, `replay` and `rehearse` start one inside.

The tree has no apt. bubblewrap and ip are this host's, each under this host's own loader; mmdebstrap must be there and is not run,
because the trees of the private cluster are this host's too, read-only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.sandbox import paths, pyslurm_layer, rootfs
from tiresias.sandbox.host import SYSTEM_PATH, find_tool

pytestmark = [
    pytest.mark.ci,
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.long,  # test_deb.py installs the package, test_installed.py replays and rehearses from the wheel
    pytest.mark.xdist_group("packages"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a tree is laid over another by root only"),
]
TOOL = '#!/bin/sh\nexec /host{loader} --library-path {libraries} /host{program} "$@"\n'
TRACE = "job_id,submit_time,num_gpus,duration,user,vc,model,status\nlong,0,4,600,,,vgg19,\nsmall,30,2,60,,,alexnet,\n"
JOB = "#!/bin/bash\nexec python3 /opt/tiresias/docs/examples/tutorial/train.py 5000\n"


@pytest.fixture
def tree(deb: Path, tmp_path: Path) -> Iterator[Path]:
    """A writable Debian with the package installed."""
    base = rootfs.ensure("bookworm")
    pyslurm_layer.ensure(rootfs.ensure("forky"))
    merged = tmp_path / "merged"
    for name in ("upper", "work", "merged"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={base.path},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(merged)], check=True)
    try:
        _prepare(merged, deb)
        yield merged
    finally:
        subprocess.run(["umount", "-l", str(merged)], check=False)


def _prepare(merged: Path, deb: Path) -> None:
    for name in rootfs.COMMANDS:  # the sandbox's own, which run the checkout
        (merged / "usr/local/bin" / name).unlink()
    for name in ("host", "sandbox/rootfs", "sandbox/pyslurm"):
        (merged / name).mkdir(parents=True)
    for name in ("bwrap", "ip", "mmdebstrap"):
        _lend(merged, name, find_tool("bwrap" if name == "mmdebstrap" else name))
    shutil.copy(deb, merged / "tmp/it.deb")
    inside(merged, "dpkg", "-i", "/tmp/it.deb")


def _lend(merged: Path, name: str, program: str | None) -> None:
    """A command of the tree that runs this host's program."""
    assert program
    loader = next(Path("/").glob("lib*/ld-linux*.so.*"))
    folders = {str(each.parent) for each in Path("/usr/lib").glob("*/libc.so.6")} | {"/usr/lib64", "/usr/lib"}
    libraries = ":".join(f"/host{folder}" for folder in sorted(folders))
    file = merged / "usr/local/bin" / name
    file.write_text(TOOL.format(loader=loader.resolve(), libraries=libraries, program=Path(program).resolve()))
    file.chmod(0o755)


def inside(merged: Path, *words: str) -> str:
    """What a command prints in the tree."""
    lent = [("/", "/host"), (paths.rootfs_folder(), "/sandbox/rootfs"), (paths.pyslurm_folder(), "/sandbox/pyslurm")]
    variables = {"PATH": SYSTEM_PATH, "HOME": "/root", "TIRESIAS_SANDBOX_HOME": "/sandbox"}
    if mirror := os.environ.get("TIRESIAS_DEBIAN_MIRROR"):  # a part of the trees' names
        variables["TIRESIAS_DEBIAN_MIRROR"] = mirror
    command = ["bwrap", "--die-with-parent", "--unshare-pid", "--cap-add", "ALL", "--bind", str(merged), "/", "--dev", "/dev",
               "--proc", "/proc", "--tmpfs", "/run", "--clearenv", "--chdir", "/tmp",
               *(word for source, place in lent for word in ("--ro-bind", str(source), place)),
               *(word for name, value in variables.items() for word in ("--setenv", name, value))]  # fmt: skip
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_replay_and_rehearsal_from_the_package(tree: Path) -> None:
    (tree / "tmp/trace.csv").write_text(TRACE)
    (tree / "tmp/job.sh").write_text(JOB)
    size = ("--nodes", "2", "--gpus-per-node", "4", "--time-scale", "60")
    replay = ("/usr/bin/tiresias", "sandbox", "replay", "trace.csv", "--policy", "las", *size, "--json", "out.json")
    assert "mean JCT" in inside(tree, *replay)
    kept = json.loads((tree / "tmp/out.json").read_text())["policies"]["las"]["invariants"]
    assert kept["lost"] == kept["run_twice"] == 0
    assert "This job can be preempted." in inside(
        tree, "/usr/bin/tiresias", "rehearse", "--sandbox", "--after", "2", "job.sh"
    )
