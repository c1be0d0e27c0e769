"""The controller with the user, groups and umask of its unit, on the roots of docs/explanation/security.md, on a real Slurm."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
UNIT = (ROOT / "etc/tiresias-controller.service").read_text()
CONTROL = "/shared/closed/control"


def setting(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)
    return str(value)


def make_roots(centre: Centre) -> None:
    """Make the folders by the commands of the manual, for alice."""
    for command in re.findall(
        r"^    (install -d .*?)(?: +#.*)?$", (ROOT / "docs/explanation/security.md").read_text(), re.MULTILINE
    ):
        line = command.replace("/shared/tiresias/control", CONTROL)
        centre.cluster.run(["sh", "-c", f"uid=$(id -u alice); mkdir -p /shared/closed; {line}"])


def start(centre: Centre) -> None:
    """Start the controller as systemd does: from root, with the credentials of the unit."""
    setpriv = ["setpriv", f"--reuid={setting('User')}", f"--regid={setting('Group')}", f"--groups={setting('SupplementaryGroups')}",
           "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]  # fmt: skip
    script = f'umask {setting("UMask")}; exec {" ".join(setpriv)} tiresias controller --config "$0"'
    config, _ = centre.configure(paths={"control": CONTROL})
    with (centre.cluster.log / "controller.log").open("ab") as log:
        centre._process = centre.cluster.popen(
            ["sh", "-c", script, config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    centre.usual = False
    centre.wait_until(lambda: centre.status() or centre.exit_code is not None, "the controller does not answer")
    assert centre.exit_code is None, centre.log()[-1]


def test_it_reads_what_jobs_report(centre_of: Callable[..., Centre], request: pytest.FixtureRequest) -> None:
    centre = centre_of("forky", accounting=True)
    request.addfinalizer(centre.stop)
    request.addfinalizer(centre.clean)
    centre.stop()
    make_roots(centre)
    start(centre)
    job = centre.train(env={"TIRESIAS_CONTROL_ROOT": CONTROL})
    centre.wait_until_preemptable(job)
    denied = centre.cluster.run(["ls", f"{CONTROL}/{centre.cluster.rootfs.uid('alice')}"], user="bob", check=False)
    assert "Permission denied" in denied.stderr
