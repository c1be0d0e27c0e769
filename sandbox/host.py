"""What this machine must have before anything is built: tools, rights, room on the disk."""

from __future__ import annotations

import os
import shutil
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


def require_room(folder: Path, need_mb: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free_mb = shutil.disk_usage(folder).free >> 20
    if free_mb < need_mb:
        raise Unavailable(
            f"disk full: {folder} has {free_mb} MB free and a build needs {need_mb} MB; "
            "free some space or point TIRESIAS_SANDBOX_HOME at a larger disk"
        )
