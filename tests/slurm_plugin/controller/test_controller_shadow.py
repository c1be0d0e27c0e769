"""Mode shadow on a real Slurm: by slurmctld's own records only users change anything during a complete run.

There are two records: the statistics (sdiag: calls by type) and the audit (DebugFlags=AuditRPCs: each call's type and user). A test
of mode exact shows that both contain a controller's writes.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.slurm_plugin.backends.sdiag import by_type

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
GPUS = 16  # of the cluster
SUBMIT = "REQUEST_SUBMIT_BATCH_JOB"
# The calls of clients that change a job, by slurm_protocol_defs.h.
WRITES = re.compile(
    r"REQUEST_(UPDATE_\w+|JOB_REQUEUE|SUSPEND\w*|TOP_JOB|SIGNAL_\w+|CANCEL_\w+|KILL_\w+|TERMINATE_\w+|CREATE_\w+|DELETE_\w+|"
    r"JOB_NOTIFY|SET_\w+|RECONFIGURE\w*|SHUTDOWN\w*|TAKEOVER|COMPLETE_\w+|RESOURCE_ALLOCATION|JOB_WILL_RUN|SUBMIT_\w+)"
)
READS = re.compile(r"REQUEST_(\w+_INFO|JOB_INFO_SINGLE|STATS_INFO|PING|JOB_STATE|TOPO_CONFIG|CONFIG)")
_AUDIT = re.compile(r"msg_type=(REQUEST_\w+) uid=(\d+)")


@dataclass
class CallCounts:
    """The calls to slurmctld since this was made. uid: the controller's user."""

    centre: Centre
    types: Counter[str] = field(default_factory=Counter)
    lines: int = 0

    def __post_init__(self) -> None:
        self.uid = int(self.centre.cluster.run(["id", "-u", self.centre.cluster.spec.daemon_user]).stdout)
        self.types, self.lines = Counter(by_type(self._sdiag())), len(self._log())

    def _sdiag(self) -> str:
        return str(self.centre.cluster.run(["sdiag"]).stdout)

    def _log(self) -> list[str]:
        return (self.centre.cluster.log / "slurmctld.log").read_text(errors="replace").splitlines()

    def writes(self) -> Counter[str]:
        """Return the writes of all users, by sdiag."""
        found = Counter(by_type(self._sdiag()))
        found.subtract(self.types)
        return Counter({name: count for name, count in found.items() if WRITES.fullmatch(name) and count})

    def by_controller(self) -> Counter[str]:
        """Return the controller's calls by type, by the audit."""
        found = (_AUDIT.search(line) for line in self._log()[self.lines :])
        return Counter(call[1] for call in found if call and int(call[2]) == self.uid)


def audit(centre: Centre, on: bool = True) -> None:
    """Switch the audit on or off; it is logged at level verbose."""
    centre.scontrol("setdebug", "verbose" if on else "info")
    centre.scontrol("setdebugflags", f"{'+' if on else '-'}AuditRPCs")


@pytest.fixture(params=["pyslurm", pytest.param("commands", marks=pytest.mark.long)])
def watched(request: pytest.FixtureRequest, centre_of: Callable[..., Centre]) -> Iterator[tuple[Any, CallCounts, str]]:
    """A controller with the hook and mode of a new installation, the calls since before its start, and the back end."""
    centre = centre_of("forky")
    centre.stop()
    audit(centre)
    calls = CallCounts(centre)
    centre.restart(mode="shadow", backend=request.param)
    yield centre, calls, request.param
    centre.clean()
    centre.stop()
    audit(centre, False)


def test_a_whole_run_without_a_write(watched: tuple[Any, CallCounts, str]) -> None:
    centre, calls, backend = watched
    assert "JobSubmitPlugins" in centre.scontrol("show", "config")
    assert "lua" in centre.scontrol("show", "config").partition("JobSubmitPlugins")[2].partition("\n")[0]
    seen = centre.cluster.shared / "the-preemption-was-published"
    seen.unlink(missing_ok=True)
    large = centre.train(gpus=GPUS, seconds=1, end=f"/shared/{seen.name}")
    centre.wait_until_preemptable(large)
    assert not (centre.root / "run/tiresias/lease").exists(), "job_submit.lua would delay jobs"
    small = [centre.submit(command="sleep 1", user="bob", gpus=gpus) for gpus in (1, 4, GPUS)]
    shown = centre.show(small[0])
    assert shown["EligibleTime"] == shown["SubmitTime"], "job_submit.lua delayed it"
    assert shown["Priority"] != "0", "it is held"
    centre.wait_until(lambda: centre.published(large).get("phase") == "to stop", "it would not be preempted", large)
    status = centre.status()
    assert status["shadow"]["preempt"] == {"jobs": 1, "gpus": GPUS}
    assert centre.reasons(large, "shadow")[0].startswith("would be preempted for job ")
    time.sleep(2.0)  # what the preemption would have spared the other jobs
    seen.touch()
    for job in (large, *small):
        ended = centre.wait_for_state(job, "COMPLETED")
        assert ended["Restarts"] == "0", "\n".join(centre.last_state([job]))
    assert centre.command("deadman", "--after", "1", "--config", centre.config).returncode == 0
    centre.usual = False
    assert centre.stop() == 0
    assert centre.command("controller", "--release", "--config", centre.config).returncode == 0, "as ExecStopPost does"
    assert calls.writes() == {SUBMIT: 4, "REQUEST_COMPLETE_BATCH_SCRIPT": 4} | _steps(calls.writes()), backend
    own = calls.by_controller()
    assert sum(own.values()) > 10, "the audit has no calls"
    assert not [name for name in own if WRITES.fullmatch(name) or not READS.fullmatch(name)], own
    _what_it_saw(centre, [large, *small])


def _steps(writes: Counter[str]) -> dict[str, int]:
    """Return the calls of nodes on job steps; their number varies."""
    return {
        name: count for name, count in writes.items() if name in ("REQUEST_STEP_COMPLETE", "REQUEST_CREATE_JOB_STEP")
    }


def _what_it_saw(centre: Centre, jobs: list[str]) -> None:
    text = (centre.cluster.shared / centre.config.rpartition("/")[2]).read_text()
    state = text.partition("state = '")[2].partition("'")[0]
    words = ["whatif", "--from-shadow", state, "--policy", "las", "--threshold", "6", "--json", "/shared/out/seen.json"]
    done = centre.command(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads((centre.cluster.shared / "out/seen.json").read_text())
    assert (found["jobs"], found["nodes"] * found["gpus_per_node"]) == (len(jobs), GPUS)
    assert found["shadow"]["preempted"]["runs"] == 1
    assert found["shadow"]["preempted"]["seconds"] > 1
    assert found["shadow"]["sooner"]["runs"] >= 2, "both small jobs start sooner"
    assert found["recorded"]["mean_jct"] > 1
    assert found["policies"]["las"]["preemptions"] >= 1


def test_the_records_contain_the_writes_of_mode_exact(centre: Centre) -> None:
    audit(centre)
    calls = CallCounts(centre)
    job = centre.submit(command="sleep 1")
    centre.wait_for_state(job, "COMPLETED")
    audit(centre, False)
    assert calls.by_controller()["REQUEST_UPDATE_JOB"] >= 1, calls.by_controller()
    assert calls.writes()["REQUEST_UPDATE_JOB"] >= 1, calls.writes()


def test_the_holds_of_a_killed_exact_controller_are_lifted_in_mode_shadow(centre: Centre) -> None:
    """The controller in mode shadow renews the lease, so the dead-man would not lift the hold."""
    full = centre.submit(gpus=GPUS)  # cannot be preempted, so the job behind it stays held
    centre.wait_for_state(full, "RUNNING")
    waits = centre.submit(gpus=GPUS)
    centre.wait_until(lambda: centre.show(waits).get("Reason") == "JobHeldAdmin", "it is not held", waits)
    centre.usual = False
    centre.stop("KILL")
    config = centre.cluster.shared / centre.config.rpartition("/")[2]
    config.write_text(config.read_text().replace("mode = 'exact'", "mode = 'shadow'"))
    centre.start(centre.config)
    centre.wait_until(lambda: centre.show(waits)["Priority"] != "0", "its hold remains", waits)
    assert centre.state(full) == "RUNNING"
