"""What this machine must have before anything is built: tools, rights, room on the disk."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable

TOOLS = {
    "mmdebstrap": "mmdebstrap", "bwrap": "bubblewrap", "unshare": "util-linux", "nsenter": "util-linux",
    "setpriv": "util-linux", "ip": "iproute2",
}  # fmt: skip
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def require_tools() -> None:
    missing = sorted({package for tool, package in TOOLS.items() if not find_tool(tool)})
    if missing:
        raise TiresiasError(f"the sandbox needs {', '.join(missing)}: run `apt-get install -y {' '.join(missing)}`")


def find_tool(name: str) -> str | None:
    """An ordinary user's PATH often lacks /usr/sbin, where `ip` lives."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


@functools.cache
def user_namespace() -> list[str]:
    """What `unshare` needs so that we are root in there: nothing for root, else a user namespace with our subordinate ids.

    Raises TiresiasError when this user can have neither.
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


def remove_tree(folder: Path) -> None:
    """Also what belongs to subordinate ids, which only the user namespace may touch. Absent is fine."""
    if user_namespace():
        subprocess.run(["unshare", *user_namespace(), "rm", "-rf", "--", str(folder)], check=False)
    else:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def plainly() -> Iterator[None]:
    """A full disk or a folder that is not ours is no bug of ours: one line instead of a traceback."""
    try:
        yield
    except OSError as error:
        hint = "free some space" if error.errno == errno.ENOSPC else "check its rights, or set TIRESIAS_SANDBOX_HOME"
        raise Unavailable(f"{error.filename or 'the sandbox'}: {error.strerror}: {hint}") from error


def require_room(folder: Path, need_mb: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free_mb = shutil.disk_usage(folder).free >> 20
    if free_mb < need_mb:
        raise Unavailable(
            f"disk full: {folder} has {free_mb} MB free and a build needs {need_mb} MB; "
            "free some space or point TIRESIAS_SANDBOX_HOME at a larger disk"
        )
