"""What the packages install, and where: the wheel's files, commands, units, manual, examples, completions and what admins copy.

deb.py and rpm.py have it laid into a folder each and wrap that up. Needs hatchling, argparse-manpage and shtab (the group
dev), make, strip and a C compiler. The same checkout gives the same files.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import sbom

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPTS = {"tiresias": "tiresias.__main__", "tsbatch": "tiresias.wrappers.tsbatch", "tsrun": "tiresias.wrappers.tsrun"}
SERVICES = "tiresias.services"
NATIVE = ("profiler/native", "services/remote_memory/native")  # libraries in C
PROGRAMS = {
    "parameter-service": f"{SERVICES}.parameter_service.manager.__main__",
    "aggregator": f"{SERVICES}.parameter_service.aggregator.__main__",
    "donor": f"{SERVICES}.remote_memory.donor.__main__",
    "job-swap": f"{SERVICES}.remote_memory.job_swap.__main__",
}  # of units, of batch scripts, and of Slurm's prolog
# Isolated: nothing of the caller's environment or folder chooses the code.
SCRIPT = "#!{python} -I\nimport sys\n\nfrom {module} import main\n\nsys.exit(main())\n"
CONFIGURATION = {"tiresias.toml": 0o644, "poke.sh": 0o755, "primary.sh": 0o755}  # an admin's changes are kept
EXAMPLES = (
    "job_submit.lua",
    "slurm.conf.snippet",
    "tiresias-alerts.yml",
    "tiresias-dashboard.json",
    "modulefiles/tiresias",
    "parameter-service/manager.json",
    "parameter-service/aggregator.sh",
    "remote-memory/donor.json",
    "remote-memory/remote-memory.json",
    "remote-memory/prolog.sh",
    "remote-memory/task-epilog.sh",
    "remote-memory/epilog.sh",
)
# of docs/, as text
MANUAL = (
    "*.md", "*.svg", "tutorial/*.md", "how-to/*.md", "reference/*.md", "explanation/*.md", "generated/*.md",
    "examples/*", "examples/tutorial/*",
)  # fmt: skip
REFERENCE = "import sys; from pathlib import Path; import reference_pages; reference_pages.write(Path(sys.argv[1]))"
PAPERS = ("LICENSE", "CHANGELOG.md", "README.md")


class Places(NamedTuple):
    """Where distributions differ. python: the interpreter; library: where it looks for modules; zsh: where zsh looks."""

    python: str
    library: str
    zsh: str


def make(scratch: Path) -> None:
    """What is built, in an empty folder: the library and the pages."""
    os.umask(0o022)  # whatever the caller's: what is made here is for everybody
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    python = os.environ.get("BUILD_PYTHON", sys.executable)  # one that has build-requirements.txt
    plain = {**os.environ, "TIRESIAS_NATIVE": "0"}  # the libraries follow
    subprocess.run([python, "-c", build, str(scratch)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=plain)
    (wheel,) = scratch.glob("*.whl")
    _unpack(wheel, scratch / "library")
    for source in NATIVE:
        native = scratch / "library/tiresias" / source
        words = ["make", "-s", "-C", str(native), "OUT=.", "CFLAGS=-O2"]  # no -g: it would contain this folder's path
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["strip", "--strip-unneeded", *map(str, native.glob("*.so"))], check=True)
    subprocess.run([sys.executable, str(ROOT / "docs/pages.py"), str(scratch / "pages")], check=True)
    shutil.copytree(ROOT / "docs", scratch / "docs", ignore=shutil.ignore_patterns("generated", "__pycache__"))
    words = [sys.executable, "-c", REFERENCE, str(scratch / "docs/generated")]
    subprocess.run(words, cwd=ROOT / "docs", check=True)


def _unpack(wheel: Path, folder: Path) -> None:
    """With the files' modes, which extractall leaves out: what is a program stays one."""
    with zipfile.ZipFile(wheel) as archive:
        for each in archive.infolist():
            Path(archive.extract(each, folder)).chmod(each.external_attr >> 16 & 0o777)


def lay(stage: Path, places: Places, scratch: Path) -> None:
    """All files below `stage`, of what `make` built."""
    shutil.copytree(scratch / "library", stage / places.library)
    for name, module in SCRIPTS.items():
        write(stage / "usr/bin" / name, SCRIPT.format(python=places.python, module=module), 0o755)
    for name, module in PROGRAMS.items():
        text = SCRIPT.format(python=places.python, module=module)
        write(stage / "usr/libexec/slurm-tiresias" / name, text, 0o755)
    _configuration(stage)
    _manual(stage / "usr/share/doc/slurm-tiresias", scratch / "docs")
    _pages(stage, places, scratch / "pages")


def source_date() -> str:
    """Epoch second of the checkout's commit; "0" where there is none."""
    words = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "0"


def write(file: Path, text: str, mode: int = 0o644) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def _configuration(stage: Path) -> None:
    for name, mode in CONFIGURATION.items():
        write(stage / "etc/tiresias" / name, (ROOT / "etc" / name).read_text(), mode)
    for name in EXAMPLES:
        example = ROOT / "etc" / name
        mode = 0o755 if os.access(example, os.X_OK) and example.suffix == ".sh" else 0o644
        write(stage / "usr/share/slurm-tiresias" / name, example.read_text(), mode)
    for unit in sorted([*(ROOT / "etc").glob("*.service"), *(ROOT / "etc").glob("*.timer")]):
        write(stage / "usr/lib/systemd/system" / unit.name, unit.read_text())
    write(stage / "usr/lib/sysusers.d/tiresias.conf", (HERE / "sysusers.conf").read_text())
    write(stage / "usr/share/doc/slurm-tiresias/sbom.cdx.json", sbom.text())
    for name in PAPERS:
        write(stage / "usr/share/doc/slurm-tiresias" / name, (ROOT / name).read_text())


def _manual(place: Path, made: Path) -> None:
    """The manual's pages, and the examples under the names that the pages give."""
    for file in sorted(file for pattern in MANUAL for file in made.glob(pattern) if file.is_file()):
        write(place / file.relative_to(made), file.read_text(), 0o755 if os.access(file, os.X_OK) else 0o644)


def _pages(stage: Path, places: Places, made: Path) -> None:
    for page in (made / "man").glob("*/*"):
        place = stage / "usr/share/man" / page.parent.name / f"{page.name}.gz"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    for name, place in {
        "tiresias.bash": "usr/share/bash-completion/completions/tiresias",
        "_tiresias": f"{places.zsh}/_tiresias",
        "tiresias.fish": "usr/share/fish/vendor_completions.d/tiresias.fish",
    }.items():
        write(stage / place, (made / "completions" / name).read_text())
