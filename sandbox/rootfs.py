"""A Debian tree with Slurm in it, built once per suite and package set and never half-made.

`ensure(suite)` returns the finished tree. Its folder's name carries a hash of everything that shapes it, so that a new
recipe is a new tree. It is built under a temporary name and renamed when it is whole; the leftovers of a build that was
killed are removed by the next one, which holds the lock.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable, UsageError
from tiresias.sandbox import host, paths
from tiresias.sandbox.atomic import build_once

RECIPE = 2  # raise it when `_finish` or the options of mmdebstrap change what is built
NEED_MB = 1500

SLURM = ("slurmctld", "slurmd", "slurm-client", "munge")
PYTHON = ("python3", "python3-numpy", "python3-rich")
PYSLURM_BUILD = ("libslurm-dev", "slurm-wlm-basic-plugins-dev", "python3-venv", "python3-dev", "gcc")
ACCOUNTING = ("slurmdbd", "mariadb-server-core", "mariadb-client-core")

# The uids are fixed, so that files in a cluster's folder mean the same to every tree.
USERS = {"tiresias": 2000, "alice": 2001, "bob": 2002}
HOST_NAME, HOST_ADDRESS = "sandbox", "10.77.0.1"
UNWANTED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*")
MOUNT_POINTS = ("shared", "opt/tiresias", "opt/pyslurm", "etc/slurm", "etc/munge", "var/lib/tiresias", "var/lib/mysql",
                "var/log/slurm", "var/spool/slurm", "sys", "proc", "dev", "run", "tmp", "home")  # fmt: skip
COMMANDS = {"tiresias": "tiresias", "tsbatch": "tiresias.wrappers.tsbatch", "tsrun": "tiresias.wrappers.tsrun"}


@dataclass(frozen=True)
class Suite:
    name: str
    packages: tuple[str, ...]
    has_bridge: bool  # pyslurm can be built against this suite's Slurm


SUITES = {
    suite.name: suite
    for suite in (
        Suite("forky", (*SLURM, *PYTHON, *PYSLURM_BUILD), has_bridge=True),
        Suite("trixie", (*SLURM, *PYTHON), has_bridge=False),
        Suite("bookworm", (*SLURM, *PYTHON, "procps"), has_bridge=False),  # the others bring pgrep and pkill along
    )
}


@dataclass(frozen=True)
class Rootfs:
    suite: str
    path: Path

    def uid(self, user: str) -> int:
        return int(self._account(user)[2])

    def gid(self, user: str) -> int:
        return int(self._account(user)[3])

    def home(self, user: str) -> str:
        return self._account(user)[5]

    def _account(self, user: str) -> list[str]:
        for line in (self.path / "etc/passwd").read_text().splitlines():
            if line.split(":")[0] == user:
                return line.split(":")
        raise UsageError(f"no user {user!r} in the sandbox; there are {', '.join(USERS)}, slurm and root")

    def package_version(self, package: str) -> str:
        """Debian's version of an installed package, "" when it is not installed."""
        status = (self.path / "var/lib/dpkg/status").read_text()
        for paragraph in status.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
            if fields.get("Package") == package:
                return fields.get("Version", "")
        return ""

    @property
    def slurm_version(self) -> str:
        return self.package_version("slurmctld").split("-")[0]

    @property
    def python_version(self) -> str:
        return self.package_version("python3").split("-")[0]


def ensure(
    suite: str,
    *,
    accounting: bool = False,
    say: Callable[[str], None] = lambda line: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Rootfs:
    """The finished tree of that suite, built when it is not there yet (about a minute).

    `meanwhile` is called when it has to be built: it may start, in the background, what will be needed next.

    Raises UsageError for an unknown suite, Unavailable for a lack of network or room, TiresiasError for the rest.
    """
    if suite not in SUITES:
        raise UsageError(f"no suite {suite!r}; known are {', '.join(SUITES)}")
    packages = SUITES[suite].packages + (ACCOUNTING if accounting else ())
    final = paths.rootfs_folder() / f"{suite}{'-accounting' if accounting else ''}-{_key(suite, packages)}"
    if not final.is_dir():
        host.require_tools()
        meanwhile()
        say(f"building Debian {suite} with Slurm (once, about a minute) ...")
        build_once(final, lambda unfinished: _build(suite, packages, unfinished, final.with_name(f"{final.name}.log")))
    return Rootfs(suite, final)


def mirror() -> str:
    return os.environ.get("TIRESIAS_DEBIAN_MIRROR", "http://deb.debian.org/debian")


def _key(suite: str, packages: tuple[str, ...]) -> str:
    shape = repr((RECIPE, suite, packages, mirror(), USERS, MOUNT_POINTS, COMMANDS, UNWANTED))
    return hashlib.sha256(shape.encode()).hexdigest()[:12]


def _build(suite: str, packages: tuple[str, ...], target: Path, log: Path) -> None:
    host.require_room(target.parent, NEED_MB)
    with log.open("wb") as output:
        done = subprocess.run(mmdebstrap(suite, packages, target), stdout=output, stderr=output, check=False)
    if done.returncode != 0:
        raise _explain(suite, log)
    _finish(target)


def mmdebstrap(suite: str, packages: tuple[str, ...], target: Path) -> list[str]:
    """The command that builds a tree of Debian with these packages and what they need."""
    # In PID and mount namespaces of its own that die with us: a killed build leaves no process and no mount.
    exclusions = "\n".join(f"path-exclude={pattern}" for pattern in UNWANTED)
    return [
        "setpriv", "--pdeathsig", "KILL", "unshare", *host.user_namespace(),
        "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
        "mmdebstrap", "--mode=root", "--format=directory", "--variant=essential", f"--include={','.join(packages)}",
        # Frozen mirrors have an expired Release file; apt's own user cannot write in some containers.
        '--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=APT::Sandbox::User "root"',
        '--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io",
        "--skip=chroot/mount/sys",  # not needed, and not allowed in a user namespace
        # Not --dpkgopt: mmdebstrap would then filter each archive of its first stage through a slow program of its own.
        f"--extract-hook=echo '{exclusions}' > \"$1/etc/dpkg/dpkg.cfg.d/exclude\"",
        suite, str(target), mirror(),
    ]  # fmt: skip


def _finish(tree: Path) -> None:
    """Users, mount points, name service and the commands of this project."""
    for folder in MOUNT_POINTS:
        (tree / folder).mkdir(parents=True, exist_ok=True)
    for file, line in (
        ("passwd", "{0}:x:{1}:{1}::/home/{0}:/bin/bash"),
        ("group", "{0}:x:{1}:"),
        ("shadow", "{0}:!:1::::::"),
    ):
        with (tree / "etc" / file).open("a") as out:
            out.writelines(line.format(user, uid) + "\n" for user, uid in USERS.items())
    (tree / "etc/hosts").touch()  # each cluster has its own
    (tree / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    (tree / "etc/resolv.conf").unlink(missing_ok=True)
    for name, module in COMMANDS.items():
        script = tree / "usr/local/bin" / name
        script.write_text(f'#!/bin/sh\nexec python3 -m {module} "$@"\n')
        script.chmod(0o755)


def _explain(suite: str, log: Path) -> TiresiasError:
    text = log.read_text(errors="replace")
    if "No space left on device" in text or "enough free space" in text:
        return Unavailable(f"disk full while building {suite}: free some space and try again (log: {log})")
    network = ("Could not resolve", "Temporary failure resolving", "Unable to connect", "Connection refused",
               "Could not connect", "Connection timed out", "Network is unreachable")  # fmt: skip
    if any(sign in text for sign in network):
        return Unavailable(
            f"no network to the Debian mirror {mirror()}: check it, or set TIRESIAS_DEBIAN_MIRROR (log: {log})"
        )
    errors = [line for line in text.splitlines() if line.startswith("E:")] or ["no message"]
    return TiresiasError(f"building Debian {suite} failed: {errors[0][2:].strip()} (log: {log})")
