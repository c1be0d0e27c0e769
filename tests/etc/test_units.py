"""The systemd units: systemd accepts each line, and how much of the host they leave within a broken controller's reach."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ETC = Path(__file__).parents[2] / "etc"
UNITS = sorted(ETC.glob("*.service"))
MOST = 1.6  # systemd's measure of exposure, 0 to 10; a unit without any of these settings has 9.6
analyze = pytest.mark.skipif(
    not shutil.which("systemd-analyze"),
    reason="systemd-analyze is not here: install systemd to check the units' hardening",
)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False)


def test_there_are_units() -> None:
    assert UNITS


@analyze
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_how_much_a_unit_exposes(unit: Path) -> None:
    done = run("security", "--offline=yes", f"--threshold={MOST * 10:.0f}", str(unit))
    assert done.returncode == 0, "\n".join([line for line in done.stdout.splitlines() if "✓" not in line])


@analyze
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_every_line(unit: Path, tmp_path: Path) -> None:
    text = re.sub(
        r"/usr/bin/tiresias|/usr/libexec/slurm-tiresias/\S+", "/bin/true", unit.read_text()
    )  # not installed here
    assert rejected_lines(tmp_path / unit.name, text) == []
    assert rejected_lines(tmp_path / unit.name, text.replace("[Service]", "[Service]\nPrivateTemp=yes"))


def rejected_lines(file: Path, text: str) -> list[str]:
    file.write_text(text)
    return [line for line in run("verify", "--man=no", str(file)).stderr.splitlines() if "ignoring" in line]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
@pytest.mark.parametrize("limit", ["MemoryMax", "TasksMax", "LimitNOFILE"])
def test_what_a_unit_may_use_is_limited(unit: Path, limit: str) -> None:
    (value,) = re.findall(rf"^{limit}=(\d+)[MG]?$", unit.read_text(), re.MULTILINE)
    assert int(value) > 0


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_no_unit_runs_as_root(unit: Path) -> None:
    lines = unit.read_text().splitlines()
    assert "User=tiresias" in lines
    assert "NoNewPrivileges=yes" in lines
    if any(line.startswith("StateDirectory=") for line in lines):
        assert "StateDirectoryMode=0700" in lines
