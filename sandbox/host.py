"""Requirements of this machine: tools, rights, disk space."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable

TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "bwrap": "bubblewrap",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
}
MEMORY_CGROUPS = Path("/sys/fs/cgroup/memory")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def require_tools() -> None:
    """Check that the needed programs are installed.

    Raises:
        TiresiasError: some are missing.
    """
    missing = sorted({package for tool, package in TOOLS.items() if not find_tool(tool)})
    if missing:
        raise TiresiasError(f"the sandbox needs {', '.join(missing)}: run `apt-get install -y {' '.join(missing)}`")


def find_tool(name: str) -> str | None:
    """Return the path of a program. A user's PATH often lacks /usr/sbin, which contains `ip`."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


@functools.cache
def user_namespace() -> list[str]:
    """Return the options of `unshare` that make this user root inside: none for root, else a user namespace with this user's
    subordinate ids.

    Raises:
        TiresiasError: this user can have neither.
    """
    if os.geteuid() == 0:
        return []
    flags = ["--user", "--map-root-user", "--map-auto"]
    tried = subprocess.run(["unshare", *flags, "chown", "--version"], capture_output=True, check=False)
    if tried.returncode == 0:
        return flags
    raise TiresiasError(
        "the sandbox needs root, or user namespaces with subordinate ids (package uidmap and a line for this user "
        f"in /etc/subuid and /etc/subgid): {tried.stderr.decode(errors='replace').strip().splitlines()[-1]}"
    )


def memory_cgroup(name: str) -> Path:
    """Create and return the memory cgroup of a cluster.

    Raises:
        TiresiasError: This machine has no memory cgroup v1 with a limit of swap, or this user may not create one.
    """
    if not (MEMORY_CGROUPS / "memory.memsw.limit_in_bytes").exists() or os.geteuid():
        raise TiresiasError("--memory-limits needs root and a memory cgroup v1 with a limit of swap (swapaccount=1)")
    folder = MEMORY_CGROUPS / f"tiresias-sandbox-{name}"
    folder.mkdir(exist_ok=True)
    return folder


def remove_memory_cgroup(name: str) -> None:
    """Remove the memory cgroup of a cluster whose processes have ended; it may be absent."""
    folder = MEMORY_CGROUPS / f"tiresias-sandbox-{name}"
    for path, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(path).rmdir()


def remove_tree(folder: Path) -> None:
    """Remove a folder, including files of subordinate ids, which only the user namespace may remove. It may be absent."""
    if user_namespace():
        subprocess.run(["unshare", *user_namespace(), "rm", "-rf", "--", str(folder)], check=False)
    else:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn an OSError, such as a full disk or a folder without write access, into an error of one line."""
    try:
        yield
    except OSError as error:
        hint = "free some space" if error.errno == errno.ENOSPC else "check its rights, or set TIRESIAS_SANDBOX_HOME"
        raise Unavailable(f"{error.filename or 'the sandbox'}: {error.strerror}: {hint}") from error


def require_disk_space(folder: Path, need_mb: int) -> None:
    """Check the free space of a folder, which is created.

    Raises:
        Unavailable: it is less than `need_mb` MiB.
    """
    folder.mkdir(parents=True, exist_ok=True)
    free_mb = shutil.disk_usage(folder).free >> 20
    if free_mb < need_mb:
        raise Unavailable(
            f"disk full: {folder} has {free_mb} MB free and a build needs {need_mb} MB; "
            "free some space or point TIRESIAS_SANDBOX_HOME at a larger disk"
        )
