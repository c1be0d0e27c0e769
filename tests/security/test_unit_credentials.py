"""The roots that docs/explanation/security.md recommends, with the user, groups and umask of the controller's unit."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.users import ALICE, DAEMON, MALLORY, as_user
from tiresias.protocol import control
from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.config import Paths
from tiresias.slurm_plugin.doctor import folder_checks

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "etc/tiresias-controller.service").read_text()
SLURM = 20064
IDS = {"tiresias": DAEMON, "slurm": SLURM}  # of users and of groups
PARKED = {"restart": 0, "state": "parked", "step": 9}
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")


def setting(name: str) -> list[str]:
    return " ".join(re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)).split()


def as_unit(action: Callable[[], object]) -> str:
    groups = [IDS[name] for name in setting("SupplementaryGroups")]
    return as_user(IDS[setting("User")[0]], action, IDS[setting("Group")[0]], groups, int(setting("UMask")[0], 8))


@pytest.fixture
def site() -> Iterator[Paths]:
    """The folders, made by the commands of the manual for one user."""
    base = Path(tempfile.mkdtemp(prefix="tiresias-unit-", dir="/tmp"))  # where other users get to
    base.chmod(0o755)
    for name, mode, owner in (("state", 0o700, DAEMON), ("run", 0o755, DAEMON), ("checkpoints", 0o1777, 0)):
        (base / name).mkdir()
        (base / name).chmod(mode)
        os.chown(base / name, owner, -1)
    commands = re.findall(
        r"^    (install -d .*?)(?: +#.*)?$", (ROOT / "docs/explanation/security.md").read_text(), re.MULTILINE
    )
    assert len(commands) >= 2
    for command in commands:
        line = command.replace("/shared/tiresias", str(base)).replace('"$uid"', str(ALICE))
        words = shlex.split(re.sub(r"(?<=-[go] )tiresias\b", str(DAEMON), line))
        subprocess.run(words, check=True)
    yield Paths(base / "state", base / "run", base / "control", base / "checkpoints")
    shutil.rmtree(base)


def blocks(paths: Paths) -> list[str]:
    return [found.words for found in folder_checks.findings(paths, False) if found.level is Level.BLOCKS]


def test_the_unit_reads_what_a_job_reports(site: Paths) -> None:
    folder = control.job_folder(site.control, ALICE, "77")
    assert as_user(ALICE, lambda: control.make(folder, "1")) == "None"
    assert as_user(ALICE, lambda: control.write(folder, control.SUPERVISOR, PARKED)) == "None"
    assert "state='parked'" in as_unit(lambda: control.report(site.control, ALICE, "77"))
    assert as_user(MALLORY, lambda: list(folder.parent.iterdir())).startswith("PermissionError")
    assert as_user(MALLORY, lambda: (site.control / str(MALLORY)).mkdir()).startswith("PermissionError")


def test_doctor_finds_nothing_that_blocks(site: Paths) -> None:
    assert as_unit(lambda: blocks(site)) == "[]"


def test_doctor_reports_folders_that_the_unit_cannot_read(site: Paths) -> None:
    os.chown(site.control / str(ALICE), ALICE, ALICE)
    assert f"not readable for uid {DAEMON} and its groups: {ALICE}" in as_unit(lambda: blocks(site))
