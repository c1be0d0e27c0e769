"""etc/modulefiles/tiresias under the real programs: Environment Modules, and Lmod where it is here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "etc/modulefiles/tiresias"
# Where Debian and Fedora put what defines `module` in a shell.
PROGRAMS = {
    "modules": ("/usr/share/modules/init/sh", "/usr/share/Modules/init/sh"),
    "lmod": ("/usr/share/lmod/lmod/init/sh",),
}
DEBIAN = {"modules": "environment-modules", "lmod": "lmod"}


class Shell:
    def __init__(self, init: str, folder: Path) -> None:
        self._init, self.folder = init, folder

    def install(self, **values: str) -> None:
        """As an admin does: copied, and its lines set."""
        text = FILE.read_text()
        for name, value in values.items():
            (line,) = [line for line in text.splitlines() if line.startswith(f"set {name} ")]
            text = text.replace(line, f"set {name} {value}")
        (self.folder / "tiresias").write_text(text)

    def run(self, commands: str, **env: str) -> str:
        done = subprocess.run(
            ["sh", "-c", f". {self._init}; module use {self.folder}; {commands}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "USER": "alice", **env},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


@pytest.fixture(params=PROGRAMS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    init = next((path for path in PROGRAMS[request.param] if Path(path).exists()), None)
    if init is None:
        pytest.skip(f"not here: apt-get install {DEBIAN[request.param]}")
    return Shell(init, tmp_path)


SHOW = 'echo "$PATH|${MANPATH-unset}|${XDG_DATA_DIRS-unset}|${TIRESIAS_CONTROL_ROOT-unset}|${TIRESIAS_CHECKPOINT_ROOT-unset}"'


def test_a_package_needs_no_paths(shell: Shell) -> None:
    shell.install()
    before, after = (shell.run(f"{load}{SHOW}") for load in ("", "module load tiresias; "))
    assert after == before


def test_folders_of_the_site(shell: Shell) -> None:
    shell.install(control="/shared/c", checkpoints="/scratch/$env(USER)/checkpoints")
    assert shell.run(f"module load tiresias; {SHOW}").strip().endswith("|/shared/c|/scratch/alice/checkpoints")
    assert shell.run(f"module load tiresias; module unload tiresias; {SHOW}").strip().endswith("|unset|unset")


def test_a_prefix_of_its_own(shell: Shell) -> None:
    (shell.folder / "opt/bin").mkdir(parents=True)
    (shell.folder / "opt/share/man/man1").mkdir(parents=True)
    (shell.folder / "opt/bin/tsbatch").write_text("#!/bin/sh\necho here\n")
    (shell.folder / "opt/bin/tsbatch").chmod(0o755)
    shell.install(prefix=str(shell.folder / "opt"))
    assert shell.run("module load tiresias; tsbatch").strip() == "here"
    path, manpath, data, *_ = shell.run(f"module load tiresias; {SHOW}").strip().split("|")
    assert path.startswith(f"{shell.folder}/opt/bin:")
    assert data == f"{shell.folder}/opt/share:/usr/local/share:/usr/share"
    assert manpath.startswith(f"{shell.folder}/opt/share/man:"), (
        "an empty part at its end stands for the system's own pages"
    )
    before, after = (shell.run(f"{load}{SHOW}") for load in ("", "module load tiresias; module unload tiresias; "))
    assert after == before


def test_help(shell: Shell) -> None:
    shell.install()
    assert "tiresias rehearse SCRIPT" in shell.run("module help tiresias")
