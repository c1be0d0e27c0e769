"""slurmctld's own failover: a real backup slurmctld takes over, and back, and the lead of the controllers goes with it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tiresias.errors import TiresiasError
from tiresias.sandbox.rootfs import HOST_ADDRESS, HOST_NAME
from tiresias.slurm_plugin.sockets.control_socket import ask

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
Centre = Any  # conftest.py
NAME, FOLDER = "backup", "/var/lib/tiresias/backup"
ADDRESS = f"{HOST_ADDRESS.rpartition('.')[0]}.77"
SECOND_HOST = ["python3", "/opt/tiresias/tests/slurm_plugin/controller/second_host.py", NAME, FOLDER]
SETTINGS = {
    "SlurmctldHost": f"{HOST_NAME}({HOST_ADDRESS})\nSlurmctldHost={NAME}({ADDRESS})",
    "CommunicationParameters": "NoCtldInAddrAny",  # both listen at the same port
    "SlurmctldTimeout": "10",  # no less: on a loaded machine the backup would take over from a slurmctld that lives
    "SlurmctldPrimaryOnProg": "/opt/tiresias/etc/primary.sh",
}


class Backup:
    """The second host, with a slurmctld and a controller."""

    def __init__(self, centre: Centre) -> None:
        self.centre, self.user = centre, centre.cluster.spec.daemon_user
        with (centre.cluster.folder / "etc/hosts").open("a") as hosts:
            hosts.write(f"{ADDRESS} {NAME}\n")
        address = ["ip", "addr", "add", f"{ADDRESS}/24", "dev", "sb0"]
        subprocess.run(["nsenter", "--target", str(centre.cluster.init.pid), "--net", *address], check=True)
        make = "".join(f"install -d -o {self.user} {FOLDER}/{part}; " for part in ("run", "tiresias", "log"))
        centre.cluster.run(["sh", "-ec", make])
        centre.cluster.run([*SECOND_HOST, "slurmctld"])

    def controller(self, config: str) -> subprocess.Popen[Any]:
        """One that stands by."""
        words = [
            "setpriv",
            f"--reuid={self.user}",
            f"--regid={self.user}",
            "--clear-groups",
            "tiresias",
            "controller",
            "--config",
        ]
        with (self.centre.cluster.log / "backup.log").open("ab") as log:
            process = self.centre.cluster.popen(
                [*SECOND_HOST, *words, config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.centre.until(lambda: "is a standby" in self.problem(), f"it does not stand by: {self.log()}")
        return process

    def status(self) -> dict[str, Any]:
        return ask(self.centre.root / FOLDER.strip("/") / "tiresias/control.sock", {"op": "status"}, timeout=5.0)

    def problem(self) -> str:
        """Why it has no status; "" when it has one."""
        try:
            self.status()
        except TiresiasError as error:
            return str(error)
        return ""

    def log(self) -> str:
        return (self.centre.cluster.log / "backup.log").read_text(errors="replace")[-3000:]

    def knows_all(self) -> None:
        """Until what has happened so far lies in StateSaveLocation: of a slurmctld that is killed nothing else is left."""
        saved, now = self.centre.cluster.folder / "spool/ctld/job_state", time.time()
        self.centre.until(lambda: saved.stat().st_mtime > now, "slurmctld does not save its state")

    def is_primary(self) -> bool:
        """By what Slurm says."""
        message = self.centre.cluster.run(["scontrol", "ping"], check=False).stdout
        return re.findall(r"^Slurmctld\(.*\) at .* is (\w+)$", message, re.MULTILINE) == ["DOWN", "UP"]


@pytest.fixture
def backup(centre_of: Callable[..., Centre]) -> Iterator[Backup]:
    centre = centre_of("forky", settings=SETTINGS)
    yield Backup(centre)
    centre.clean()
    centre.stop()


def test_the_lead_goes_with_slurmctld_to_its_backup_and_back(backup: Backup) -> None:
    centre = backup.centre
    config, _ = centre.configure()
    centre.start(config)
    second = backup.controller(config)
    whale = centre.train(gpus=16, seconds=5)
    centre.trains(whale)
    filler = centre.submit(gpus=16, user="bob", command="sleep 300")  # preempts it, on both sides of the failover
    waiting = centre.submit(command="sleep 1", user="bob")
    centre.reaches(filler, "RUNNING")
    assert centre.show(waiting)["Priority"] == "0", "held by us"
    backup.knows_all()

    centre.cluster.run(["sh", "-c", "kill -KILL $(cat /run/slurm/slurmctld.pid)"])
    centre.until(backup.is_primary, "the backup slurmctld does not take over")
    centre.until(lambda: not backup.problem(), f"the lead does not follow: {backup.log()}")
    assert backup.status()["leader"]["host"] == NAME
    centre.until(lambda: "is a standby" in centre.log()[-1], "the first one does not stand by")
    assert centre.show(waiting)["Priority"] == "0", "nothing was released"
    centre.cancel(filler, user="bob")
    centre.reaches(whale, "RUNNING", "COMPLETED")
    centre.reaches(waiting, "RUNNING", "COMPLETED")

    centre.cluster.run(["slurmctld"])
    centre.until(centre.status, "the lead does not come back")
    assert centre.status()["leader"]["host"] == HOST_NAME
    assert not backup.is_primary()
    for job in (whale, waiting):
        centre.reaches(job, "COMPLETED")
    assert centre.output(whale).count("from step 0") == 1, "it went on from its checkpoint"
    second.kill()
