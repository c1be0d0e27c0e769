"""The RPM package holds what the Debian package holds, at the places of its distributions."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.xdist_group("packages")]
# Debian's places, and where the others look.
MOVED = (
    (re.compile("^/usr/lib/python3/dist-packages/"), "/usr/lib/python3.X/site-packages/"),
    (re.compile("^/usr/share/zsh/vendor-completions/"), "/usr/share/zsh/site-functions/"),
)


def query(rpm: Path, *words: str) -> str:
    return subprocess.run(
        ["rpm", "-qp", "--nosignature", *words, str(rpm)], capture_output=True, text=True, timeout=60, check=True
    ).stdout


def of_rpm(rpm: Path) -> dict[str, tuple[int, str]]:
    """Mode and hash of each file."""
    rows = query(rpm, "--qf", "[%{FILENAMES}\t%{FILEMODES}\t%{FILEDIGESTS}\n]").splitlines()
    files = {name: (int(mode) & 0xFFFF, digest) for name, mode, digest in (row.split("\t") for row in rows)}
    return {
        re.sub(r"^/usr/lib/python3\.\d+/", "/usr/lib/python3.X/", name): (mode & 0o777, digest)
        for name, (mode, digest) in files.items()
        if mode & 0o170000 == 0o100000
    }


def of_deb(deb: Path, tree: Path, python: str) -> dict[str, tuple[int, str]]:
    subprocess.run(["dpkg-deb", "-x", str(deb), str(tree)], check=True, timeout=60)
    for script in (*(tree / "usr/bin").iterdir(), *(tree / "usr/libexec/slurm-tiresias").iterdir()):
        script.write_text(script.read_text().replace("#!/usr/bin/python3 ", f"#!/usr/bin/python{python} "))
    found = {}
    for path in (path for path in tree.rglob("*") if path.is_file()):
        name = f"/{path.relative_to(tree)}"
        for before, after in MOVED:
            name = before.sub(after, name)
        found[name] = (path.stat().st_mode & 0o777, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def test_both_packages_hold_the_same(rpm: Path, deb: Path, tmp_path: Path) -> None:
    python = re.findall(r"^python([\d.]+)dist\(numpy\)", query(rpm, "--requires"), re.MULTILINE)[0]
    assert of_rpm(rpm) == of_deb(deb, tmp_path, python)


def test_what_an_admin_changes_is_kept_and_folders_belong_to_it(rpm: Path) -> None:
    kept = query(rpm, "--configfiles").split()
    assert sorted(kept) == [f"/etc/tiresias/{name}" for name in ("poke.sh", "primary.sh", "tiresias.toml")]
    rows = [row.split("\t") for row in query(rpm, "--qf", "[%{FILENAMES}\t%{FILEFLAGS:fflags}\n]").splitlines()]
    assert {flags for name, flags in rows if name in kept} == {"cn"}, "not config(noreplace)"
    folders = {str(Path(name).parent) for name, _ in rows if "tiresias" in str(Path(name).parent)}
    assert folders <= {name for name, _ in rows}


def test_it_lives_by_the_scripts_of_the_debian_package(rpm: Path) -> None:
    output = query(rpm, "--scripts")
    for words in (
        "set -- upgrade",
        "set -- remove",
        "set -- configure",
        "stop --release",
        "systemctl daemon-reload",
        "__pycache__",
    ):
        assert words in output
    assert "%" not in output


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone installs")
def test_installed_and_removed(rpm: Path, tmp_path: Path) -> None:
    """In an empty tree, where none of its scripts can run: what RPM installs and leaves."""
    database, root = tmp_path / "db", tmp_path / "root"
    for folder in (database, root):
        folder.mkdir()
    words = ["rpm", "--root", str(root), "--dbpath", "/db", "--nodeps", "--noscripts", "--nosignature"]
    subprocess.run([*words, "-i", str(rpm)], check=True, timeout=60)
    installed = {f"/{path.relative_to(root)}" for path in root.rglob("*") if path.is_file()}
    assert set(query(rpm, "--qf", "[%{FILENAMES}\n]").split("\n")) >= {
        name for name in installed if not name.startswith("/db/")
    }
    (root / "etc/tiresias/tiresias.toml").write_text('mode = "exact"\n')
    subprocess.run([*words, "-e", "slurm-tiresias"], check=True, timeout=60)
    left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "db" not in path.parts}
    assert left == {"etc/tiresias/tiresias.toml.rpmsave"}


DOCS = Path(__file__).parents[2] / "docs"


def test_manual_and_examples_are_in_both(rpm: Path, deb: Path, tmp_path: Path) -> None:
    """What both hold is the same (above)."""
    subprocess.run(["dpkg-deb", "-x", str(deb), str(tmp_path)], check=True, timeout=60)
    place = tmp_path / "usr/share/doc/slurm-tiresias"
    pages = [
        *DOCS.glob("*.md"),
        *DOCS.glob("[!g]*/*.md"),
        *DOCS.glob("examples/*.*"),
        *DOCS.glob("examples/tutorial/*"),
    ]
    expected = {str(page.relative_to(DOCS)) for page in pages} | {"generated/commands.md", "generated/configuration.md"}
    assert len(expected) > 35
    assert expected <= {str(file.relative_to(place)) for file in place.rglob("*")}
    assert (place / "examples/ddp.sh").stat().st_mode & 0o111
