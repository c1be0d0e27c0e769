"""The command line that creates a cluster's namespaces and starts its first program.

launcher (unshare) ── bwrap ── first process of the inner PID namespace ── init.sh, slurmctld, slurmd, jobs

The launcher's death kills bwrap, the first process of an outer PID namespace, so that the kernel ends all other processes,
at whatever time it happens. (With bwrap's own --die-with-parent there is a time at which its child waits forever.) The
mounts and the unnamed network disappear with the last process. Nothing outside is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tiresias.sandbox import host, paths
from tiresias.sandbox.rootfs import HOST_ADDRESS, HOST_NAME, Rootfs
from tiresias.sandbox.slurm_conf import DEVICE, ClusterSpec

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHONPATH = "/opt/tiresias/src:/opt/pyslurm"
BYTECODE = "/run/bytecode"  # with a folder for each user
# slurmctld resolves its own address and ignores loopback, so one end of a veth pair has an address.
NETWORK = (
    f"ip link set lo up; ip link add sb0 type veth peer name sb1; ip addr add {HOST_ADDRESS}/24 dev sb0; "
    "ip link set sb0 up; ip link set sb1 up"
)
# cluster folder -> its path inside
WRITABLE = {
    "shared": "/shared",
    "home": "/home",
    "log": "/var/log/slurm",
    "spool": "/var/spool/slurm",
    "etc": "/etc/slurm",
    "munge": "/etc/munge",
    "lib": "/var/lib/tiresias",
}


def command(spec: ClusterSpec, rootfs: Rootfs, folder: Path, pyslurm: Path | None, info_fd: int) -> list[str]:
    """Return the command line that starts the cluster."""
    return [
        "unshare", *host.user_namespace(), "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
        "sh", "-ec", f'{NETWORK}; exec "$@"', "sh",
        *_bwrap(spec, rootfs, folder, pyslurm, info_fd), "/bin/sh", "/etc/slurm/init.sh", spec.daemon_user, *spec.node_names,
    ]  # fmt: skip


def environment(user: str, home: str) -> dict[str, str]:
    """Return the environment of a command inside: no variable of the caller, such as SBATCH_*, is inherited."""
    return {
        "PATH": PATH, "PYTHONPATH": PYTHONPATH, "PYTHONPYCACHEPREFIX": f"{BYTECODE}/{user}", "HOME": home,
        "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "LANG": "C.UTF-8", "SLURM_CONF": "/etc/slurm/slurm.conf",
        "PYSLURM_DISABLE_AUTO_INIT": "1",
    }  # fmt: skip


def _bwrap(spec: ClusterSpec, rootfs: Rootfs, folder: Path, pyslurm: Path | None, info_fd: int) -> list[str]:
    return [
        "bwrap", "--die-with-parent", "--unshare-pid", "--unshare-uts", "--unshare-ipc", "--hostname", HOST_NAME,
        "--cap-add", "ALL", "--info-fd", str(info_fd), "--clearenv", *_setenv(),
        "--ro-bind", str(rootfs.path), "/", "--proc", "/proc", "--dev", "/dev", *_devices(spec.gpus_per_node),
        "--tmpfs", "/run", "--perms", "1777", "--tmpfs", "/tmp", "--perms", "1777", "--tmpfs", "/dev/shm",
        *(word for name, place in WRITABLE.items() for word in ("--bind", str(folder / name), place)),
        "--bind", str(paths.bytecode_folder(spec.suite)), BYTECODE,
        "--ro-bind", str(folder / "etc/hosts"), "/etc/hosts",
        *_project(),
        *(_memory_limits(spec.name) if spec.memory_limits else ()),
        *(("--ro-bind", str(pyslurm), "/opt/pyslurm") if pyslurm else ()),
        *(("--bind", str(folder / "db"), "/var/lib/mysql") if spec.accounting else ()),
    ]  # fmt: skip


def _memory_limits(name: str) -> Sequence[str]:
    """Devices for the swap of a job, and a memory cgroup of the cluster in place of the host's root."""
    devices = [f"/dev/{device}" for device in ("fuse", "loop-control", *(f"loop{number}" for number in range(8)))]
    binds = [word for device in devices for word in ("--dev-bind-try", device, device)]
    return ["--ro-bind", "/sys", "/sys", "--bind", str(host.memory_cgroup(name)), str(host.MEMORY_CGROUPS), *binds]


def _setenv() -> Sequence[str]:
    return [word for key, value in environment("root", "/root").items() for word in ("--setenv", key, value)]


def _project() -> Sequence[str]:
    """The checkout read-only; or an installed package's parts, in a small file system that contains their mount points."""
    binds = paths.source_binds()
    words = [word for source, place in binds for word in ("--ro-bind", str(source), place)]
    if binds[0][1] == paths.PLACE:
        return words
    open_to_all = ["--dir", f"{paths.PLACE}/src"]  # bwrap creates missing parents with access for root only
    return ["--tmpfs", paths.PLACE, *open_to_all, *words, "--remount-ro", paths.PLACE]


def _devices(count: int) -> Sequence[str]:
    """Fake GPUs: the null device under other names. No mknod, which a user namespace may not do."""
    return [word for index in range(count) for word in ("--dev-bind", "/dev/null", f"{DEVICE}{index}")]
