"""Builds the Debian package from the checkout: the wheel's files, the units, man pages, completions and what admins copy.

    python etc/deb/build.py dist        dist/slurm-tiresias_0.1.0_amd64.deb

Needs hatchling, argparse-manpage and shtab (the dependency group dev), dpkg-deb, make and a C compiler. The same checkout gives
the same package.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tiresias import __version__

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = "usr/lib/python3/dist-packages"
SCRIPTS = {"tiresias": "tiresias.__main__", "tsbatch": "tiresias.wrappers.tsbatch", "tsrun": "tiresias.wrappers.tsrun"}
# Isolated: nothing of the caller's environment or folder chooses the code.
SCRIPT = "#!/usr/bin/python3 -I\nimport sys\n\nfrom {module} import main\n\nsys.exit(main())\n"
COMPLETIONS = {
    "tiresias.bash": "usr/share/bash-completion/completions/tiresias", "_tiresias": "usr/share/zsh/vendor-completions/_tiresias",
    "tiresias.fish": "usr/share/fish/vendor_completions.d/tiresias.fish",
}  # fmt: skip
CONFIGURATION = {"tiresias.toml": 0o644, "poke.sh": 0o755, "primary.sh": 0o755}
EXAMPLES = ("job_submit.lua", "slurm.conf.snippet", "tiresias-alerts.yml", "tiresias-dashboard.json")


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="deb-") as folder:
        stage = Path(folder) / "stage"
        _library(stage, Path(folder))
        _scripts(stage)
        _configuration(stage)
        _pages(stage, Path(folder))
        _control(stage)
        print(_package(stage, out))


def architecture() -> str:
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def _library(stage: Path, scratch: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(scratch)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = scratch.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(stage / LIBRARY)
    native = stage / LIBRARY / "tiresias/profiler/native"
    subprocess.run(["make", "-s", "-C", str(native), "OUT=."], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["strip", "--strip-unneeded", *map(str, native.glob("*.so"))], check=True)


def _scripts(stage: Path) -> None:
    for name, module in SCRIPTS.items():
        _write(stage / "usr/bin" / name, SCRIPT.format(module=module), 0o755)


def _configuration(stage: Path) -> None:
    for name, mode in CONFIGURATION.items():
        _write(stage / "etc/tiresias" / name, (ROOT / "etc" / name).read_text(), mode)
    for name in EXAMPLES:
        _write(stage / "usr/share/slurm-tiresias" / name, (ROOT / "etc" / name).read_text())
    for unit in sorted([*(ROOT / "etc").glob("*.service"), *(ROOT / "etc").glob("*.timer")]):
        _write(stage / "usr/lib/systemd/system" / unit.name, unit.read_text())
    _write(stage / "usr/lib/sysusers.d/tiresias.conf", (HERE / "sysusers.conf").read_text())
    for name in ("LICENSE", "CHANGELOG.md", "README.md"):
        _write(stage / "usr/share/doc/slurm-tiresias" / name, (ROOT / name).read_text())


def _pages(stage: Path, scratch: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "docs/pages.py"), str(scratch / "pages")], check=True)
    for page in (scratch / "pages/man").glob("*/*"):
        place = stage / "usr/share/man" / page.parent.name / f"{page.name}.gz"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    for name, place_of in COMPLETIONS.items():
        _write(stage / place_of, (scratch / "pages/completions" / name).read_text())


def _control(stage: Path) -> None:
    text = (HERE / "control").read_text().format(version=__version__, architecture=architecture())
    _write(stage / "DEBIAN/control", text)
    _write(stage / "DEBIAN/conffiles", "".join(f"/etc/tiresias/{name}\n" for name in CONFIGURATION))
    for name in ("postinst", "prerm", "postrm"):
        _write(stage / "DEBIAN" / name, (HERE / name).read_text(), 0o755)


def _package(stage: Path, out: Path) -> Path:
    file = out / f"slurm-tiresias_{__version__}_{architecture()}.deb"
    epoch = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch or "0"}
    for path in stage.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    words = ["dpkg-deb", "--root-owner-group", "--build", str(stage), str(file)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
    return file


def _write(file: Path, text: str, mode: int = 0o644) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


if __name__ == "__main__":
    if not shutil.which("dpkg-deb"):
        sys.exit("dpkg-deb is not here: build the package on Debian or Ubuntu, or install dpkg")
    main()
