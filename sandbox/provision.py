"""Fills a new cluster's folder: configuration, keys, and the folders that become /shared, /home and the logs."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from tiresias.sandbox import launch, paths, slurm_conf
from tiresias.sandbox.rootfs import USERS, Rootfs
from tiresias.sandbox.slurm_conf import ClusterSpec

INIT = Path(__file__).with_name("init.sh")
ACCOUNTING = Path(__file__).with_name("accounting.sh")


def provision(spec: ClusterSpec, tree: Rootfs, folder: Path) -> None:
    for name in launch.WRITABLE:
        (folder / name).mkdir(parents=True)
    (folder / "shared").chmod(0o1777)
    (folder / "log").chmod(0o1777)
    _homes(folder / "home")
    _munge_key(tree, folder / "munge")
    _configuration(spec, folder / "etc")
    os.chown(folder / "spool", tree.uid("slurm"), tree.gid("slurm"))
    if spec.accounting:
        _accounting(tree, folder)


def _homes(base: Path) -> None:
    for user, uid in USERS.items():
        (base / user).mkdir(mode=0o755)
        os.chown(base / user, uid, uid)


def _munge_key(tree: Rootfs, folder: Path) -> None:
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    folder.chmod(0o700)
    for path in (key, folder):
        os.chown(path, tree.uid("munge"), tree.gid("munge"))


def _accounting(tree: Rootfs, folder: Path) -> None:
    (folder / "db").mkdir()
    conf = folder / "etc/slurmdbd.conf"
    conf.write_text(slurm_conf.slurmdbd_conf())
    conf.chmod(0o600)
    for path in (conf, folder / "db"):
        os.chown(path, tree.uid("slurm"), tree.gid("slurm"))
    shutil.copy(ACCOUNTING, folder / "etc")


def _configuration(spec: ClusterSpec, etc: Path) -> None:
    source = _etc_of_the_project()
    job_submit = source / "job_submit.lua"
    hooks = spec.hooks and (source / "poke.sh").exists()
    wired = hooks and job_submit.exists()
    (etc / "slurm.conf").write_text(slurm_conf.slurm_conf(spec, job_submit=wired, hooks=hooks))
    (etc / "gres.conf").write_text(slurm_conf.gres_conf(spec))
    (etc / "cgroup.conf").write_text(slurm_conf.cgroup_conf(spec.suite))
    if wired:
        shutil.copy(job_submit, etc / "job_submit.lua")
    shutil.copy(INIT, etc / "init.sh")


def _etc_of_the_project() -> Path:
    """etc/ is there in a checkout; an installed package brings no hooks, and the daemon then polls only."""
    host, place = paths.source_binds()[0]
    return host / "etc" if place == "/opt/tiresias" else Path("/nonexistent")
