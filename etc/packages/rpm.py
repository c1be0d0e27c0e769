"""The RPM package: the files of the Debian package, where Fedora and its relatives look for them. Needs rpmbuild (rpm-build).

It is for one version of Python: that of the distribution, else the one that TIRESIAS_RPM_PYTHON names (RHEL 9 has a 3.11
beside its own 3.9). The profiler's library runs with the C library that it was built with, and newer ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import stage

from tiresias import __version__

TOOL = "rpmbuild"
SPEC = stage.ROOT / "etc/rpm/tiresias.spec"
SCRIPTS = stage.ROOT / "etc/deb"
# RPM's scripts are the Debian package's, after translation of RPM's count of installed versions into Debian's arguments.
WORDS = {
    "pre": ("prerm", '[ "$1" -gt 1 ] || exit 0\nset -- upgrade\n'),
    "post": ("postinst", "set -- configure\n"),
    "preun": ("prerm", '[ "$1" -eq 0 ] || exit 0\nset -- remove\n'),
    "postun": ("postrm", "set -- remove\n"),
}
BYTECODE = "find /{library}/tiresias -name __pycache__ -prune -exec rm -rf {{}} +\n"  # of runs as root
OWNED = ("/tiresias", "/slurm-tiresias")  # folders that the package owns, with all folders below


def package(folder: Path, made: Path, out: Path) -> Path:
    """The file. folder: an empty one; made: what stage.make built."""
    tree, scripts, python = folder / "tree", folder / "scripts", _python()
    places = stage.Places(
        f"/usr/bin/python{python}", f"usr/lib/python{python}/site-packages", "usr/share/zsh/site-functions"
    )
    stage.lay(tree, places, made)
    for name, (of_debian, words) in WORDS.items():
        stage.write(scripts / name, words + (SCRIPTS / of_debian).read_text())
    with (scripts / "preun").open("a") as preun:
        preun.write(BYTECODE.format(library=places.library))
    stage.write(folder / "list", "".join(f"{line}\n" for line in _files(tree)))
    return _wrap(folder, python, out.resolve())


def _python() -> str:
    """Return the requested version of Python, else the distribution's, else this interpreter's."""
    if asked := os.environ.get("TIRESIAS_RPM_PYTHON"):
        return asked
    words = ["rpm", "--eval", "%{?python3_version}"]
    version = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return version or f"{sys.version_info.major}.{sys.version_info.minor}"


def _wrap(folder: Path, python: str, out: Path) -> Path:
    macros = {
        "tree": folder / "tree", "scripts": folder / "scripts", "list": folder / "list", "python": python, "number": __version__,
        "_topdir": folder / "rpmbuild", "_rpmdir": out, "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
        "use_source_date_epoch_as_buildtime": 1, "clamp_mtime_to_source_date_epoch": 1, "_buildhost": "localhost",
    }  # fmt: skip
    defined = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": stage.source_date()}
    done = subprocess.run(
        ["rpmbuild", "-bb", *defined, str(SPEC)], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    (file,) = [Path(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("Wrote:")]
    return file


def _files(tree: Path) -> list[str]:
    """Return the lines of %files: each file, the folders that the package owns, and the configuration files."""
    configuration = {f"/etc/tiresias/{name}" for name in stage.CONFIGURATION}
    lines = ["%defattr(-,root,root,-)"]
    for path in sorted(tree.rglob("*")):
        name = f"/{path.relative_to(tree)}"
        if path.is_dir():
            lines += (
                [f'%dir "{name}"'] if any(f"{owned}/" in f"{name}/" for owned in OWNED) or ".dist-info" in name else []
            )
        else:
            lines.append(f'{"%config(noreplace) " if name in configuration else ""}"{name}"')
    return lines
