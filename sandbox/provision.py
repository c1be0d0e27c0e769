"""Fills the folder of a new cluster: configuration, keys, and the folders that become /shared, /home and the logs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tiresias.sandbox import launch, paths, slurm_conf
from tiresias.sandbox.rootfs import USERS
from tiresias.sandbox.slurm_conf import ClusterSpec

SCRIPTS = ("init.sh", "accounting.sh")


def provision(spec: ClusterSpec, folder: Path) -> None:
    """Create the files; init.sh sets their owners, as only a process inside is certainly root."""
    for name in (*launch.WRITABLE, *(("db",) if spec.accounting else ())):
        (folder / name).mkdir(parents=True)
    for name in ("shared", "log"):
        (folder / name).chmod(0o1777)
    for user in USERS:
        (folder / "home" / user).mkdir()
    key = folder / "munge/munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    _configuration(spec, folder / "etc")
    _bytecode(paths.bytecode_folder(spec.suite))


def _bytecode(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)


def _configuration(spec: ClusterSpec, etc: Path) -> None:
    source = paths.project_etc()
    job_submit = source / "job_submit.lua"
    hooks = spec.hooks and (source / "poke.sh").exists()
    wired = hooks and job_submit.exists()
    (etc / "slurm.conf").write_text(slurm_conf.slurm_conf(spec, job_submit=wired, hooks=hooks))
    (etc / "gres.conf").write_text(slurm_conf.gres_conf(spec))
    if spec.topology == "yaml":
        (etc / "topology.yaml").write_text(slurm_conf.topology_yaml(spec))
    elif spec.topology != "flat":
        (etc / "topology.conf").write_text(slurm_conf.topology_conf(spec))
    (etc / "cgroup.conf").write_text(slurm_conf.cgroup_conf(spec.suite, spec.memory_limits))
    (etc / "hosts").write_text(slurm_conf.hosts(spec))
    if wired:
        shutil.copy(job_submit, etc / "job_submit.lua")
    if spec.accounting:
        (etc / "slurmdbd.conf").touch(mode=0o600)
        (etc / "slurmdbd.conf").write_text(slurm_conf.slurmdbd_conf())
    for script in SCRIPTS:
        shutil.copy(Path(__file__).with_name(script), etc)
