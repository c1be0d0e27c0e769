"""Two controllers on one state folder: one leads, the other takes over when the leader is stopped, killed or frozen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tests.slurm_plugin.controller.test_controller_virtual_clusters import SHARED, TABLES, guaranteed, table, train
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.sockets.control_client import ask

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]
RUN = "/run/tiresias/other"


class Standby:
    """The second controller, with its own run folder. `changes`: as for Centre.configure, of both controllers."""

    def __init__(self, centre: Centre, **changes: Any) -> None:
        centre.stop()
        config, state = centre.configure(**changes)
        centre.start(config)
        centre.usual = False
        self.centre = centre
        self.config, _ = centre.configure(**changes | {"paths": {"state": state, "run": RUN}})
        self.lease = centre.root / state.strip("/") / "leader" / "lease"
        with (centre.cluster.log / "other.log").open("ab") as log:
            self.process = centre.cluster.popen(
                ["tiresias", "controller", "--config", self.config],
                user=centre.cluster.spec.daemon_user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        centre.wait_until(lambda: "is a standby" in self.problem(), f"it is not a standby: {self.log()}")

    def ask(self, **request: Any) -> dict[str, Any]:
        return ask(self.centre.root / RUN.strip("/") / "control.sock", request, timeout=5.0)

    def problem(self) -> str:
        """Return why there is no status; "" if there is one."""
        try:
            self.ask(op="status")
        except TiresiasError as error:
            return str(error)
        return ""

    def wait_until_it_leads(self) -> None:
        self.centre.wait_until(lambda: not self.problem(), f"it does not take over: {self.log()}")

    def reload(self, virtual_clusters: Sequence[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
        """Write other tables [[virtual_cluster]] into its configuration, and order it to read them."""
        leading, self.centre.config = self.centre.config, self.config
        self.centre.change_virtual_clusters(virtual_clusters)
        self.centre.config = leading
        return self.centre.command("reload", "--config", self.config)

    def log(self) -> str:
        return (self.centre.cluster.log / "other.log").read_text(errors="replace")


@pytest.fixture
def other(centre: Centre, request: pytest.FixtureRequest) -> Iterator[Standby]:
    """The second controller; a parameter has what differs from the usual configuration."""
    (centre.cluster.log / "other.log").unlink(missing_ok=True)
    other = Standby(centre, **getattr(request, "param", {}))
    yield other
    process, centre._process = centre._process, other.process
    centre.stop("KILL")
    centre._process = process
    centre.stop("KILL")


def epoch(request: Callable[..., dict[str, Any]]) -> int:
    return int(request(op="status")["leader"]["epoch"])


def test_a_killed_leader_is_replaced_in_the_middle_of_a_preemption(centre: Centre, other: Standby) -> None:
    assert "epoch 1" in other.problem()
    done = centre.command("status", "--socket", f"{RUN}/control.sock")
    assert done.returncode == 1
    assert "leads; ask there" in done.stderr
    centre.wait_until(lambda: centre.status()["leader"]["standby"], "the leader does not detect the standby")
    large = centre.train(gpus=16, seconds=4, habit="slow", until_preempted=True)
    centre.wait_until_preemptable(large)
    small = centre.submit(command="sleep 1", user="bob")
    centre.wait_until(lambda: centre.published(large).get("phase") == "saving", "it does not save", large)
    centre.stop("KILL")
    other.wait_until_it_leads()
    assert epoch(other.ask) == 2
    centre.wait_for_state(small, "COMPLETED")
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "1"
    assert "done at step 80" in centre.output(large)
    assert centre.output(large).splitlines().count("from step 0") == 1, "it resumed from its checkpoint"


def test_a_leader_that_ends_hands_over_and_releases_nothing(centre: Centre, other: Standby) -> None:
    filler = centre.submit(gpus=16)
    centre.wait_for_state(filler, "RUNNING")
    waiting = centre.submit(gpus=1)
    centre.wait_until(lambda: centre.show(waiting)["Priority"] == "0", "not held", waiting)
    assert centre.stop() == 0
    other.wait_until_it_leads()
    assert centre.show(waiting)["Priority"] == "0"
    released = centre.command("controller", "--config", centre.config, "--release")
    assert released.returncode == 0
    assert "nothing was released: another controller" in released.stderr
    once = centre.command("controller", "--config", centre.config, "--once")
    assert once.returncode == 1
    assert "another controller leads" in once.stderr
    centre.cancel(filler)
    centre.wait_for_state(waiting, "RUNNING")


@pytest.mark.long
def test_nothing_is_released_while_there_is_a_standby(centre: Centre, other: Standby) -> None:
    """As ExecStopPost does after a crash, whether or not the standby has taken over already."""
    filler = centre.submit(gpus=16)
    centre.wait_for_state(filler, "RUNNING")
    waiting = centre.submit(gpus=1)
    centre.wait_until(lambda: centre.show(waiting)["Priority"] == "0", "not held", waiting)
    centre.stop("KILL")
    released = centre.command("controller", "--config", centre.config, "--release")
    assert (released.returncode, "nothing was released" in released.stderr) == (0, True), released.stderr
    assert centre.show(waiting)["Priority"] == "0"
    other.wait_until_it_leads()


def test_a_frozen_leader_is_replaced_and_becomes_a_standby_when_it_continues(centre: Centre, other: Standby) -> None:
    centre.freeze()
    other.wait_until_it_leads()
    job = centre.train(gpus=4, seconds=1)
    centre.thaw()
    centre.wait_until(lambda: "is a standby" in centre.log()[-1], "it does not step down")
    assert centre.status() == {}
    centre.wait_for_state(job, "COMPLETED")
    assert len(other.ask(op="explain", job=job)["runs"]) == 1


def test_the_kill_switch_stops_both(centre: Centre, other: Standby) -> None:
    centre.wait_until(lambda: centre.status()["leader"]["standby"], "the leader does not detect the standby")
    ordered = ["tiresias", "stop", "--release", "--config", centre.config]
    done = centre.cluster.run(ordered, user="root")
    assert "Slurm schedules alone" in done.stdout
    centre.wait_until(lambda: other.process.poll() is not None, f"the standby takes over: {other.log()}")
    centre.wait_until(lambda: centre.exit_code is not None, "the leader does not end")
    assert centre.exit_code == 0
    assert "controllers are stopped by root" in other.log()
    assert centre.cluster.run([*ordered[:2], "--config", centre.config], user="root").stdout.startswith(
        "no controller runs"
    )


def test_the_kill_switch_reaches_a_leader_on_another_host(centre: Centre, other: Standby) -> None:
    """Ordered on the host of the standby, which reaches the leader only through the state folder."""
    done = centre.cluster.run(["tiresias", "stop", "--release", "--config", other.config], user="root")
    assert "Slurm schedules alone" in done.stdout
    centre.wait_until(lambda: centre.exit_code is not None, "the leader continues")
    centre.wait_until(lambda: other.process.poll() is not None, "the standby continues")
    assert any("controllers are stopped by root" in line for line in centre.log()[-3:])


@pytest.mark.long
def test_a_standby_reloads_its_configuration(centre: Centre, other: Standby) -> None:
    file = centre.root / other.config.strip("/")
    file.write_text(file.read_text().replace("period = 0.5", "period = 0.25"))
    done = centre.cluster.run(["tiresias", "reload", "--config", other.config], check=False)
    assert (done.returncode, done.stdout) == (0, "reloaded: period: 0.5 -> 0.25\n"), done.stderr
    assert "is a standby" in other.problem()
    assert centre.status()["cycle"]["period"] == 0.5
    assert centre.stop() == 0
    other.wait_until_it_leads()
    assert other.ask(op="status")["cycle"]["period"] == 0.25


@pytest.mark.long
def test_a_standby_refuses_to_pause_preemptions(centre: Centre, other: Standby) -> None:
    done = centre.cluster.run(["tiresias", "pause", "--config", other.config], user="root", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "leads; order it there" in done.stderr
    assert centre.status()["paused"] is None


def test_the_lead_follows_slurmctld_to_its_backup(centre: Centre, other: Standby) -> None:
    """Slurm runs the hook on the host whose slurmctld takes over; here it is run as slurmctld would, as SlurmUser."""
    filler = centre.submit(gpus=16)
    centre.wait_for_state(filler, "RUNNING")
    waiting = centre.submit(gpus=1)
    centre.wait_until(lambda: centre.show(waiting)["Priority"] == "0", "not held", waiting)
    hook = ["/opt/tiresias/etc/primary.sh"]
    centre.cluster.run(hook, user="slurm", env={"TIRESIAS_PRIMARY": f"{RUN}/primary"})
    other.wait_until_it_leads()
    centre.wait_until(lambda: "is a standby" in centre.log()[-1], "it is not a standby")
    assert centre.show(waiting)["Priority"] == "0"
    centre.cluster.run(hook, user="slurm")
    centre.wait_until(centre.status, "the lead does not return")
    assert epoch(centre.ask) == 3
    centre.cluster.run(hook, user="slurm", env={"TIRESIAS_PRIMARY": "/nonexistent/primary"})


@pytest.mark.long
@pytest.mark.parametrize("other", [SHARED | {"virtual_clusters": TABLES}], indirect=True)
def test_a_standby_checks_the_cells_of_a_changed_configuration(centre: Centre, other: Standby) -> None:
    """At a reload against the nodes; when it takes the lead against the running jobs."""
    job = train(centre, "prod", seconds=300)
    centre.wait_for_state(job, "RUNNING")
    centre.wait_until(lambda: guaranteed(centre, job) == [True], "the job has no cells", job)
    refused = other.reload([table("prod", 3), table("research", 3)])
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "virtual clusters own 6 cells of type node" in refused.stderr
    accepted = other.reload([table("research", 4)])
    assert accepted.returncode == 0, accepted.stderr
    centre.stop("KILL")
    other.wait_until_it_leads()
    line = f"job {job} runs in cells that its virtual cluster does not have now"
    assert line in other.log()
    assert other.log().index(line) > other.log().index("leading, in epoch 2")
