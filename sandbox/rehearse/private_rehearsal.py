"""A rehearsal without Slurm: the same command inside a private cluster, with a copy of the script's folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.protocol import environment
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

NODES, USER = 2, "alice"
MAX_FOLDER_BYTES = 256 << 20  # bytes of the script's folder
PLACE, ROOT = "/shared/rehearsal", "/shared/tiresias"
ROOTS = {environment.CONTROL_ROOT: f"{ROOT}/control", environment.CHECKPOINT_ROOT: f"{ROOT}/checkpoints"}


def rehearse(script: Path, own_options: Sequence[str], options: Sequence[str], report: Callable[[str], None]) -> int:
    """Run the command inside and return its exit code. The cluster and the copy are removed at the end."""
    folder = script.resolve().parent
    if (size := _size(folder)) > MAX_FOLDER_BYTES:
        raise UsageError(
            f"{folder} holds more than {MAX_FOLDER_BYTES >> 20} MB ({size >> 20} so far): put the script into a smaller folder"
        )
    report("no Slurm answers here: starting a private cluster")
    cluster = Cluster.up(
        ClusterSpec(name=f"rehearse-{os.getpid()}", nodes=NODES, settings={"KillWait": "5"}), report=report
    )
    try:
        shutil.copytree(folder, cluster.shared / "rehearsal", symlinks=True)
        cluster.run(["mkdir", "-m", "1777", ROOT, *ROOTS.values()])
        cluster.run(["chown", "-R", USER, PLACE])
        words = ["tiresias", "rehearse", *own_options, script.name, *options]
        return cluster.popen(words, user=USER, env=ROOTS, cwd=PLACE, stdin=subprocess.DEVNULL).wait()
    finally:
        cluster.down()


def _size(folder: Path) -> int:
    """Return the bytes below the folder, counted up to MAX_FOLDER_BYTES."""
    total = 0
    for path in folder.rglob("*"):
        total += path.lstat().st_size
        if total > MAX_FOLDER_BYTES:
            break
    return total
