"""A Debian tree with Slurm, built once per suite and package set, and never incomplete.

`ensure(suite)` returns the finished tree. The name of its folder contains a hash of all inputs, so that a changed recipe
makes a new tree. It is built under a temporary name and renamed when complete; the next build, which holds the lock,
removes the leftovers of a killed one.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable, UsageError
from tiresias.protocol import environment
from tiresias.sandbox import host, paths
from tiresias.sandbox.atomic import build_once, scratch_of

RECIPE = 2  # increase it when `_finish` or the options of mmdebstrap change the result
BUILD_SPACE_MB = 1500

SLURM = ("slurmctld", "slurmd", "slurm-client", "munge")
PYTHON = ("python3", "python3-numpy", "python3-rich")
PYSLURM_BUILD = ("libslurm-dev", "slurm-wlm-basic-plugins-dev", "python3-venv", "python3-dev", "gcc")
ACCOUNTING = ("slurmdbd", "mariadb-server-core", "mariadb-client-core")

# The uids are fixed, so that files in a cluster's folder have the same owners in every tree.
USERS = {"tiresias": 2000, "alice": 2001, "bob": 2002}
HOST_NAME, HOST_ADDRESS = "sandbox", "10.77.0.1"
UNWANTED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*")
MOUNT_POINTS = ("shared", "opt/tiresias", "opt/pyslurm", "etc/slurm", "etc/munge", "var/lib/tiresias", "var/lib/mysql",
                "var/log/slurm", "var/spool/slurm", "sys", "proc", "dev", "run", "tmp", "home")  # fmt: skip
COMMANDS = {"tiresias": "tiresias", "tsbatch": "tiresias.wrappers.tsbatch", "tsrun": "tiresias.wrappers.tsrun"}


@dataclass(frozen=True)
class Suite:
    """A Debian suite with its packages."""

    name: str
    packages: tuple[str, ...]
    has_bridge: bool  # pyslurm can be built against this suite's Slurm


SUITES = {
    suite.name: suite
    for suite in (
        Suite("forky", (*SLURM, *PYTHON, *PYSLURM_BUILD), has_bridge=True),
        Suite("trixie", (*SLURM, *PYTHON), has_bridge=False),
        Suite(
            "bookworm", (*SLURM, *PYTHON, "procps"), has_bridge=False
        ),  # the other suites install pgrep and pkill as dependencies
    )
}


@dataclass(frozen=True)
class Rootfs:
    """A finished tree."""

    suite: str
    path: Path

    def uid(self, user: str) -> int:
        """Return the uid of a user of the tree."""
        return int(self._account(user)[2])

    def gid(self, user: str) -> int:
        """Return the gid of a user of the tree."""
        return int(self._account(user)[3])

    def home(self, user: str) -> str:
        """Return the home folder of a user of the tree."""
        return self._account(user)[5]

    def _account(self, user: str) -> list[str]:
        for line in (self.path / "etc/passwd").read_text().splitlines():
            if line.split(":")[0] == user:
                return line.split(":")
        raise UsageError(f"no user {user!r} in the sandbox; there are {', '.join(USERS)}, slurm and root")

    def package_version(self, package: str) -> str:
        """Return Debian's version of an installed package, "" if it is not installed."""
        status = (self.path / "var/lib/dpkg/status").read_text()
        for paragraph in status.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
            if fields.get("Package") == package:
                return fields.get("Version", "")
        return ""

    @property
    def slurm_version(self) -> str:
        """Slurm's version, without Debian's revision."""
        return self.package_version("slurmctld").split("-")[0]

    @property
    def python_version(self) -> str:
        """Python's version, without Debian's revision."""
        return self.package_version("python3").split("-")[0]


def ensure(
    suite: str,
    *,
    accounting: bool = False,
    report: Callable[[str], None] = lambda line: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Rootfs:
    """Return the finished tree of a suite, building it if it is missing (about a minute).

    Args:
        suite: a key of SUITES
        accounting: whether slurmdbd and MariaDB are included
        report: receives lines for the user
        meanwhile: called before a build; may start, in the background, what is needed next

    Raises:
        UsageError: unknown suite.
        Unavailable: no network or disk space.
        TiresiasError: any other failure.
    """
    if suite not in SUITES:
        raise UsageError(f"unknown suite {suite!r}; available: {', '.join(SUITES)}")
    packages = SUITES[suite].packages + (ACCOUNTING if accounting else ())
    final = paths.rootfs_folder() / f"{suite}{'-accounting' if accounting else ''}-{_key(suite, packages)}"
    if not final.is_dir():
        host.require_tools()
        meanwhile()
        report(f"building Debian {suite} with Slurm (once, about a minute) ...")
        build_once(final, lambda unfinished: _build(suite, packages, unfinished, final.with_name(f"{final.name}.log")))
    return Rootfs(suite, final)


def mirror() -> str:
    """Return the URL of the Debian mirror."""
    return os.environ.get(environment.DEBIAN_MIRROR, "http://deb.debian.org/debian")


def _key(suite: str, packages: tuple[str, ...]) -> str:
    shape = repr((RECIPE, suite, packages, mirror(), USERS, MOUNT_POINTS, COMMANDS, UNWANTED))
    return hashlib.sha256(shape.encode()).hexdigest()[:12]


def _build(suite: str, packages: tuple[str, ...], target: Path, log: Path) -> None:
    host.require_disk_space(target.parent, BUILD_SPACE_MB)
    scratch = scratch_of(target)
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch)}  # a killed mmdebstrap does not remove its temporary files
    with log.open("wb") as output:
        done = subprocess.run(mmdebstrap(suite, packages, target), stdout=output, stderr=output, env=env, check=False)
    if done.returncode != 0:
        raise _explain(suite, log)
    _finish(target)


def mmdebstrap(suite: str, packages: tuple[str, ...], target: Path) -> list[str]:
    """Return the command that builds a Debian tree with these packages and their dependencies."""
    # In PID and mount namespaces that end with this process: a killed build leaves no process and no mount.
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
    """Add users, mount points, name service and the commands of this project."""
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
