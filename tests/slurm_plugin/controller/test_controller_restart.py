"""A restart and a reload keep the holds, on both back ends: slurmctld's log shows which holds were lifted."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
UNIT = Path(__file__).parents[3] / "etc/tiresias-controller.service"
MANY, FEW = 100, 10  # jobs that are held
KEEPS = ("tiresias", "controller", "--keep-holds", "--config")


class Watched:
    """A centre with jobs on all GPUs, `count` jobs that the controller holds, and what slurmctld has logged since."""

    def __init__(self, centre: Centre, count: int) -> None:
        self.centre, self._log = centre, centre.cluster.log / "slurmctld.log"
        self.fillers = [centre.submit(gpus=4) for _ in range(4)]
        for filler in self.fillers:
            centre.wait_for_state(filler, "RUNNING")
        one = "sbatch --parsable --gpus=4 --ntasks=4 --output=/dev/null --wrap 'sleep 600'"
        script = f"for number in $(seq {count}); do {one} || exit; done"
        self.waiting = centre.cluster.run(["sh", "-c", script], user="bob", cwd="/tmp", timeout=300).stdout.split()
        centre.scontrol("update", f"JobId={','.join(self.waiting)}", "StartTime=now")
        centre.wait_until(lambda: len(self.held()) == count, "not all are held")
        self.late: list[str] = []
        self._from = self._log.stat().st_size

    def held(self) -> set[str]:
        lines = self.centre.cluster.run(["squeue", "-h", "-t", "PD", "-o", "%i %r"]).stdout.splitlines()
        return {job for job, reason in map(str.split, lines) if reason == "JobHeldAdmin"}

    def lifted(self) -> set[str]:
        with self._log.open(errors="replace") as log:
            log.seek(self._from)
            return set(re.findall(r"release hold on JobId=(\d+)", log.read()))

    def started(self) -> set[str]:
        """Return the started jobs; they run for ten minutes."""
        jobs = ",".join([*self.waiting, *self.late])
        return set(self.centre.cluster.run(["squeue", "-h", "-t", "R,CG,CD,F", "-j", jobs, "-o", "%i"]).stdout.split())

    def starts_more_than(self, started: set[str]) -> set[str]:
        """Wait until further jobs have started, and for two cycles; return all that have started."""
        self.centre.wait_until(lambda: self.started() > started, "nothing is started")
        self.centre.wait_for_cycles()
        return self.started()

    def slurm_schedules(self) -> None:
        """Wait until Slurm alone has started what it could: the job without GPUs has the lowest priority."""
        probe = self.centre.submit("--nice=100", gpus=0, command="true", user="alice")
        self.centre.wait_for_state(probe, "COMPLETED", "COMPLETING")


def deadman(centre: Centre, seconds: float) -> subprocess.Popen[str]:
    """Start the command of ExecStopPost=."""
    words = ["tiresias", "deadman", "--after", f"{seconds:g}", "--config", centre.config]
    return centre.cluster.popen(
        words, user=centre.cluster.spec.daemon_user, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture(params=[("auto", FEW)], ids=["few"])
def watched(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[Watched]:
    backend, count = request.param
    centre = centre_of("forky")
    centre.stop()
    centre.start(centre.configure(backend=backend)[0], program=KEEPS)
    centre.usual = False
    yield Watched(centre, count)
    centre.stop("KILL")
    centre.clean()


@pytest.mark.parametrize(
    "watched",
    [
        pytest.param(("pyslurm", MANY), id="pyslurm"),
        pytest.param(("commands", MANY), id="commands", marks=pytest.mark.long),
    ],
    indirect=True,
)
def test_neither_reload_nor_restart_lifts_a_hold(watched: Watched) -> None:
    """However the controller ends: GPUs that are released and jobs that are submitted meanwhile wait for the next controller."""
    centre = watched.centre
    check_reload(watched)
    started = set[str]()
    for how, filler in zip(("TERM", "KILL"), watched.fillers, strict=False):
        centre.stop(how)
        guard = deadman(centre, 30)
        centre.cancel(filler)
        watched.late.append(centre.submit(gpus=4, command="sleep 600"))
        watched.slurm_schedules()
        assert (watched.lifted(), watched.started()) == (started, started), "while no controller ran"
        centre.start(centre.config, program=KEEPS)
        assert (guard.communicate(timeout=60)[0], guard.returncode) == ("", 0)
        started = watched.starts_more_than(started)
        assert all(centre.reasons(job, "start") for job in started), "Slurm started it alone"
        assert watched.lifted() == started
    assert watched.held() >= {*watched.waiting, *watched.late} - started


def check_reload(watched: Watched) -> None:
    centre, pid = watched.centre, watched.centre.status()["pid"]
    change(centre, "thresholds = [6.0]", "thresholds = [7.0, 90.0]")
    found = reloaded(centre)
    changes = "policy.thresholds: 6.0 -> 7.0, 90.0"
    assert (found.returncode, found.stdout) == (0, f"reloaded: {changes}\n"), found.stderr
    centre.wait_for_cycles()
    status = centre.status()
    assert (status["pid"], status["policy"]["thresholds"]) == (pid, [7.0, 90.0])
    assert [one["why"] for one in status["decisions"] if one["action"] == "reload"] == [changes]
    assert "nothing changed" in reloaded(centre).stdout
    assert "only root and the controller's own user" in reloaded(centre, user="alice").stderr
    centre.wait_for_cycles()
    assert (watched.lifted(), watched.started(), len(watched.held())) == (set(), set(), MANY)


def test_the_holds_of_a_controller_that_does_not_restart_are_released(watched: Watched) -> None:
    """Here a mistake in the configuration prevents the next start."""
    centre = watched.centre
    change(centre, "period = 0.5", "period = -1.0")
    assert centre.stop() == 0
    assert centre.command("controller", "--config", centre.config).returncode == 2
    assert len(watched.held()) == FEW
    reported, _ = deadman(centre, 3).communicate(timeout=60)
    assert f"released {FEW} jobs" in reported
    assert (watched.held(), watched.lifted()) == (set(), set(watched.waiting))


@pytest.mark.long
def test_a_restart_with_another_state_folder_lifts_the_holds(watched: Watched) -> None:
    """The next controller would not find them in its journal."""
    centre = watched.centre
    change(centre, "state = '/var/lib/tiresias/", "state = '/var/lib/tiresias/other/")
    assert centre.stop() == 0
    assert watched.held() == set()


def test_stop_lifts_the_holds(watched: Watched) -> None:
    """At once, while the controller runs and after it has ended for a restart."""
    centre = watched.centre
    centre.stop()
    for _ in range(2):
        found = centre.cluster.run(["tiresias", "stop", "--config", centre.config], check=False)
        assert found.returncode == 0, found.stderr
        assert "no job is held by Tiresias; Slurm schedules alone" in found.stdout
        assert watched.held() == set()
        centre.start(centre.config, program=KEEPS)
        centre.wait_until(lambda: len(watched.held()) == FEW, "not held again")


def change(centre: Centre, old: str, new: str) -> None:
    """In the configuration file of the running controller."""
    file = centre.root / centre.config.strip("/")
    assert file.read_text().count(old) == 1, file.read_text()
    file.write_text(file.read_text().replace(old, new))


def reloaded(centre: Centre, user: str = "root") -> subprocess.CompletedProcess[str]:
    return centre.cluster.run(["tiresias", "reload", "--config", centre.config], user=user, check=False)


def test_a_refused_reload_changes_nothing(watched: Watched) -> None:
    centre = watched.centre
    change(centre, "period = 0.5", "period = 0.25")
    change(centre, "control = '/shared/tiresias/control'", "control = '/shared/elsewhere'")
    refused = reloaded(centre)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "paths.control: /shared/tiresias/control -> /shared/elsewhere: this cannot change" in refused.stderr
    change(centre, "control = '/shared/elsewhere'", "control = '/shared/tiresias/control'")
    change(centre, "period = 0.25", "period = -1.0")
    before = len(centre.log())
    centre.send_hup()
    words = "period = -1.0: allowed: "
    centre.wait_until(lambda: any(words in line for line in centre.log()[before:]), "the reload is not refused")
    change(centre, "period = -1.0", "period = 0.25")
    centre.wait_for_cycles()
    assert centre.status()["cycle"]["period"] == 0.5
    centre.send_hup()
    centre.wait_until(lambda: centre.status()["cycle"]["period"] == 0.25, "SIGHUP does not reload")
    assert (watched.lifted(), watched.started(), len(watched.held())) == (set(), set(), FEW)


def test_partitions_become_managed_and_unmanaged_by_a_reload(watched: Watched) -> None:
    """Jobs in a new partition become managed; those in a removed one are released, the others stay held."""
    centre = watched.centre
    job = centre.submit("--partition=other", gpus=4)
    centre.wait_for_cycles()
    assert job not in watched.held()
    change(centre, "partitions = ['gpu']", "partitions = ['gpu', 'other']")
    assert reloaded(centre).stdout == "reloaded: partitions: gpu -> gpu, other\n"
    centre.wait_until(lambda: job in watched.held(), "is not taken over", job)
    change(centre, "partitions = ['gpu', 'other']", "partitions = ['gpu', 'gone']")
    assert "partition gone is not in slurm.conf" in reloaded(centre).stderr
    change(centre, "partitions = ['gpu', 'gone']", "partitions = ['gpu']")
    assert reloaded(centre).returncode == 0
    centre.wait_until(lambda: job not in watched.held(), "is not released", job)
    centre.wait_for_cycles()
    assert (watched.lifted(), len(watched.held())) == ({job}, FEW)


@pytest.mark.long
def test_release_does_not_need_the_configured_partitions(watched: Watched) -> None:
    """As ExecStopPost= does after a partition was removed from slurm.conf."""
    centre = watched.centre
    centre.stop("KILL")
    change(centre, "partitions = ['gpu']", "partitions = ['gpu', 'gone']")
    refused = centre.command("controller", "--config", centre.config)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "partition gone is not in slurm.conf" in refused.stderr
    released = centre.command("controller", "--config", centre.config, "--release")
    assert (released.returncode, watched.held()) == (0, set()), released.stderr


@pytest.mark.parametrize("starts", [True, pytest.param(False, marks=pytest.mark.long)])
def test_exec_stop_post_of_the_unit(centre_of: Callable[..., Centre], starts: bool) -> None:
    """ExecStopPost= starts the dead-man, and releases at once where systemd does not start it, as during a shutdown."""
    centre = centre_of("forky")
    centre.ready()
    centre.usual = False
    line = next(line for line in UNIT.read_text().splitlines() if line.startswith("ExecStopPost="))
    script = line.partition("'")[2].rstrip("'").replace("-u tiresias", f"-u {centre.cluster.spec.daemon_user}")
    fake_systemctl = centre.cluster.shared / "fake-systemctl"
    fake_systemctl.mkdir(exist_ok=True)
    (fake_systemctl / "systemctl").write_text(
        f'#!/bin/sh\necho "$*" >> /shared/fake-systemctl/asked\nexit {int(not starts)}\n'
    )
    (fake_systemctl / "systemctl").chmod(0o755)
    filler, job = centre.submit(gpus=16), centre.submit(gpus=4, user="bob")
    centre.wait_for_state(filler, "RUNNING")
    centre.scontrol("update", f"JobId={job}", "StartTime=now")
    centre.wait_until(lambda: centre.show(job)["Priority"] == "0", "is not held", job)
    centre.stop("KILL")
    script = script.replace(
        "/usr/bin/tiresias controller --release", f"tiresias controller --release --config {centre.config}"
    )
    words = ["sh", "-c", f"PATH=/shared/fake-systemctl:$PATH; {script}"]
    done = centre.cluster.run(words, check=False)
    assert done.returncode == 0, done.stderr
    assert "--no-block start tiresias-deadman.service" in (fake_systemctl / "asked").read_text()
    assert (centre.show(job)["Priority"] == "0") == starts
    centre.clean()
