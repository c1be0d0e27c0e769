"""A rehearsal where there is no Slurm: the same command inside a private cluster, with a copy of the script's folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tiresias.errors import UsageError
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

NODES, USER = 2, "alice"
MOST = 256 << 20  # bytes of the script's folder
PLACE, ROOT = "/shared/rehearsal", "/shared/tiresias"
ROOTS = {"TIRESIAS_CONTROL_ROOT": f"{ROOT}/control", "TIRESIAS_CHECKPOINT_ROOT": f"{ROOT}/checkpoints"}


def rehearse(script: Path, ours: Sequence[str], options: Sequence[str], say: Callable[[str], None]) -> int:
    """The command's exit code inside. The cluster and the copy are gone afterwards."""
    folder = script.resolve().parent
    if (size := _size(folder)) > MOST:
        raise UsageError(
            f"{folder} holds more than {MOST >> 20} MB ({size >> 20} so far): put the script into a smaller folder"
        )
    say("no Slurm answers here: starting a private cluster")
    cluster = Cluster.up(ClusterSpec(name=f"rehearse-{os.getpid()}", nodes=NODES, settings={"KillWait": "5"}), say=say)
    try:
        shutil.copytree(folder, cluster.shared / "rehearsal", symlinks=True)
        cluster.run(["mkdir", "-m", "1777", ROOT, *ROOTS.values()])
        cluster.run(["chown", "-R", USER, PLACE])
        words = ["tiresias", "rehearse", *ours, script.name, *options]
        return cluster.popen(words, user=USER, env=ROOTS, cwd=PLACE, stdin=subprocess.DEVNULL).wait()
    finally:
        cluster.down()


def _size(folder: Path) -> int:
    """Bytes below it, counted no further than MOST."""
    total = 0
    for path in folder.rglob("*"):
        total += path.lstat().st_size
        if total > MOST:
            break
    return total
