"""An empty Debian 12 in namespaces of its own: programs that run there find nothing that is installed on this machine.

    with Machine.new(folder, ("make", "python3")) as machine:
        machine.copy_checkout("/root/checkout")
        done = machine.run("make demo", folder="/root/checkout")

Private are the file system (a copy of a small Debian tree), mounts, process ids and the host name. Shared with this machine are the
kernel with /dev and /sys, the network, the DNS configuration, the certificate store, and the settings that lead to a Debian mirror
and to Python packages (pip.conf, PIP_* variables, the local folders that they name).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tiresias.sandbox import host, paths, rootfs
from tiresias.sandbox.atomic import build_once, scratch_of

ROOT = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
BUILD_SPACE_MB = 600
BASE = ("apt", "ca-certificates", "mount")
USER_ID = 1000  # of the ordinary user
LIMIT_S = 3000.0  # of one command in the machine
MARKS = (  # of the tests that build one
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(2 * LIMIT_S),
    pytest.mark.skipif(
        os.geteuid() != 0, reason="an empty machine needs root: it mounts file systems and changes its root folder"
    ),
)
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
NETWORK_SETTINGS = ("http_proxy", "https_proxy", "no_proxy", "TIRESIAS_DEBIAN_MIRROR")
# $1: the tree; $2: user id; $3: command; then pairs of a path of this machine and its place in the tree.
ENTER = """
tree=$1 user=$2 command=$3 path=$PATH; shift 3; PATH=$PATH:/usr/sbin:/sbin
mount --make-rprivate /; mount --bind "$tree" "$tree"; hostname empty
mount -t proc proc "$tree/proc"; mount --rbind /dev "$tree/dev"; mount --rbind /sys "$tree/sys"
mount -t tmpfs tmpfs "$tree/run"
while [ $# -gt 0 ]; do mount --bind -o ro "$1" "$tree$2"; shift 2; done
cd "$tree"; pivot_root . mnt; umount -l /mnt; cd /
exec env PATH="$path" setpriv --reuid="$user" --regid="$user" --clear-groups sh -c "$command"
"""


@dataclass(frozen=True)
class Machine:
    """A running copy of the tree.

    Attributes:
        tree: its root folder, as this machine sees it
    """

    tree: Path

    @staticmethod
    def new(folder: Path, packages: tuple[str, ...]) -> Machine:
        """Return an empty machine with these Debian packages, BASE, and no others but the essential ones."""
        host.require_tools()
        names = tuple(sorted({*BASE, *packages}))
        final = paths.rootfs_folder() / f"empty-{SUITE}-{'-'.join(names)}"
        build_once(final, lambda unfinished: _build(names, unfinished))
        subprocess.run(["cp", "-a", "--reflink=auto", str(final), str(folder / "tree")], check=True)
        return Machine(folder / "tree")

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.tree)

    def copy_checkout(self, place: str, user: int = 0) -> None:
        """Copy the files that a clone of this checkout has: what git lists, and the history as one commit is left out."""
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=True,
        )
        target = self.tree / place.lstrip("/")
        for name in filter(None, listed.stdout.decode().split("\0")):
            if not (ROOT / name).exists() and not (ROOT / name).is_symlink():
                continue  # removed, and not committed yet
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
        subprocess.run(["chown", "-hR", f"{user}:{user}", str(target)], check=True)

    def run(
        self,
        command: str,
        *,
        folder: str = "/",
        user: int = 0,
        timeout: float = 300.0,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the shell; what it prints comes in `stdout`, errors included. Its processes end with it."""
        binds, settings = pip_settings()
        for _, place in binds:
            _mount_point(self.tree / place.lstrip("/"), directory=Path(place).is_dir())
        variables = {
            "PATH": rootfs_path(user),
            "HOME": "/root" if user == 0 else "/home/user",
            "LANG": "C.UTF-8",
            **{name: os.environ[name] for name in NETWORK_SETTINGS if name in os.environ},
            **settings,
            **(env or {}),
        }
        places = [word for pair in binds for word in pair]
        words = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "sh", "-ec", ENTER, "sh"]
        inside = f"cd {shlex.quote(folder)} && {command}"
        return subprocess.run(
            [*words, str(self.tree), str(user), inside, *places], env=variables, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout, check=False,
        )  # fmt: skip


def rootfs_path(user: int) -> str:
    """Return the PATH that a login shell of Debian has."""
    common = "/usr/local/bin:/usr/bin:/bin"
    return f"/usr/local/sbin:{common}:/usr/sbin:/sbin" if user == 0 else common


def pip_settings() -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Return what leads pip to its packages as on this machine.

    Returns:
        (path, place in the tree) of certificates and local folders; variables PIP_*.
    """
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    found = re.findall(r"^(?:global|install|:env:)\.([\w-]+)=(['\"])(.*)\2$", listed, re.MULTILINE)
    settings = {f"PIP_{key.upper().replace('-', '_')}": value.replace("\\n", " ").strip() for key, _, value in found}
    named = {word.removeprefix("file://") for value in settings.values() for word in value.split()}
    folders = sorted(
        {str(Path(name).parent if name.endswith("/simple") else name) for name in named if name[:1] == "/"}
    )
    return [(name, name) for name in {*folders, CERTIFICATES} if Path(name).exists()], settings


def _mount_point(path: Path, directory: bool) -> None:
    if directory:
        path.mkdir(parents=True, exist_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def _build(packages: tuple[str, ...], target: Path) -> None:
    host.require_disk_space(target.parent, BUILD_SPACE_MB)
    scratch = scratch_of(target)
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch)}
    done = subprocess.run(
        rootfs.mmdebstrap(SUITE, packages, target), capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, f"no tree of Debian {SUITE}: {done.stderr[-1000:]}"
    for name in ("resolv.conf", "hosts"):
        (target / "etc" / name).unlink(missing_ok=True)
        shutil.copy(Path("/etc") / name, target / "etc" / name)
    with (target / "etc/passwd").open("a") as users, (target / "etc/group").open("a") as groups:
        users.write(f"user:x:{USER_ID}:{USER_ID}::/home/user:/bin/bash\n")
        groups.write(f"user:x:{USER_ID}:\n")
    (target / "home/user").mkdir()
    os.chown(target / "home/user", USER_ID, USER_ID)
