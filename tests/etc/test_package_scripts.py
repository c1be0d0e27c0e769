"""What the packages' scripts ask of systemd, which a stand-in writes down: an upgrade starts again what ran, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

DEB = Path(__file__).parents[2] / "etc/deb"
SYSTEMCTL = """#!/bin/sh
case "$*" in
  "-q is-active "*) grep -qx "$3" "$STAND/active" ;;
  *) echo "$*" >> "$STAND/asked" ;;
esac
"""
UNITS = (
    "tiresias-metrics.service tiresias-parameter-service.service tiresias-remote-memory.service "
    "tiresias-deadman.timer tiresias-controller.service"
)
pytestmark = pytest.mark.skipif(not shutil.which("bwrap"), reason="bwrap is not here")


class Host:
    """This machine with a /run of its own, on which systemd runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run_folder = folder, folder / "run"
        (self.run_folder / "systemd/system").mkdir(parents=True)
        (folder / "systemctl").write_text(SYSTEMCTL)
        (folder / "systemd-sysusers").write_text("#!/bin/sh\n")
        for name in ("systemctl", "systemd-sysusers"):
            (folder / name).chmod(0o755)

    def active(self, *units: str) -> None:
        (self.folder / "active").write_text("".join(f"{unit}\n" for unit in units))

    def script(self, *words: str) -> list[str]:
        """What was asked of systemd meanwhile."""
        (self.folder / "asked").write_text("")
        inside = ["bwrap", "--dev-bind", "/", "/", "--bind", str(self.run_folder), "/run"]
        inside += ["--setenv", "STAND", str(self.folder), "--setenv", "PATH", f"{self.folder}:/usr/bin:/bin"]
        done = subprocess.run([*inside, "sh", *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_an_upgrade_starts_again_what_ran(host: Host) -> None:
    host.active("tiresias-controller.service", "tiresias-deadman.timer")
    assert host.script(str(DEB / "prerm"), "upgrade", "0.2.0") == [f"stop {UNITS}"]
    host.active()
    started = "start tiresias-deadman.timer tiresias-controller.service"
    assert host.script(str(DEB / "postinst"), "configure", "0.1.0") == ["daemon-reload", started]
    assert host.script(str(DEB / "postinst"), "configure", "0.1.0") == ["daemon-reload"], "once"


def test_one_that_fails_starts_again_the_older_version(host: Host) -> None:
    host.active("tiresias-controller.service")
    host.script(str(DEB / "prerm"), "upgrade", "0.2.0")
    assert "start tiresias-controller.service" in host.script(str(DEB / "postinst"), "abort-upgrade", "0.2.0")


@pytest.mark.parametrize("active", [(), ("tiresias-controller.service",)])
def test_what_did_not_run_is_not_started(host: Host, active: tuple[str, ...]) -> None:
    host.active(*active)
    if not active:
        host.script(str(DEB / "prerm"), "upgrade", "0.2.0")
    assert host.script(str(DEB / "postinst"), "configure") == ["daemon-reload"]
