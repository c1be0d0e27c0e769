"""Mode shadow on a real Slurm: a whole run, after which slurmctld itself says that only users asked it to change anything.

slurmctld tells it twice: by its statistics (sdiag: calls by type), and by its audit (DebugFlags=AuditRPCs: each call's type and
user). The same is asked of mode exact, so that the question is known to find writes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tiresias.slurm_plugin.backends.sdiag import by_type

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
GPUS = 16  # all there are
SUBMIT = "REQUEST_SUBMIT_BATCH_JOB"
# Whatever changes a job: by slurm_protocol_defs.h, of all that clients can ask for.
WRITES = re.compile(
    r"REQUEST_(UPDATE_\w+|JOB_REQUEUE|SUSPEND\w*|TOP_JOB|SIGNAL_\w+|CANCEL_\w+|KILL_\w+|TERMINATE_\w+|CREATE_\w+|DELETE_\w+|"
    r"JOB_NOTIFY|SET_\w+|RECONFIGURE\w*|SHUTDOWN\w*|TAKEOVER|COMPLETE_\w+|RESOURCE_ALLOCATION|JOB_WILL_RUN|SUBMIT_\w+)"
)
READS = re.compile(r"REQUEST_(\w+_INFO|JOB_INFO_SINGLE|STATS_INFO|PING|JOB_STATE|TOPO_CONFIG|CONFIG)")
_AUDIT = re.compile(r"msg_type=(REQUEST_\w+) uid=(\d+)")


@dataclass
class Asked:
    """What slurmctld was asked for since this was made. uid: the controller's."""

    centre: Any
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
        """By anybody, by sdiag."""
        found = Counter(by_type(self._sdiag()))
        found.subtract(self.types)
        return Counter({name: count for name, count in found.items() if WRITES.fullmatch(name) and count})

    def by_controller(self) -> Counter[str]:
        """Of all types, by the audit."""
        calls = (_AUDIT.search(line) for line in self._log()[self.lines :])
        return Counter(call[1] for call in calls if call and int(call[2]) == self.uid)


def audit(centre: Any, on: bool = True) -> None:
    """What a debug flag says is of level verbose."""
    centre.scontrol("setdebug", "verbose" if on else "info")
    centre.scontrol("setdebugflags", f"{'+' if on else '-'}AuditRPCs")


@pytest.fixture(params=["pyslurm", "commands"])
def watched(request: pytest.FixtureRequest, centre_of: Callable[..., Any]) -> Iterator[tuple[Any, Asked, str]]:
    """A centre with a fresh install's hook and mode; what is asked of slurmctld from before its start on; the back end."""
    centre = centre_of("forky")
    centre.stop()
    audit(centre)
    asked = Asked(centre)
    centre.restart(mode="shadow", backend=request.param)
    yield centre, asked, request.param
    centre.clean()
    centre.stop()
    audit(centre, False)


def test_a_whole_run_without_a_write(watched: tuple[Any, Asked, str]) -> None:
    centre, asked, backend = watched
    assert "JobSubmitPlugins" in centre.scontrol("show", "config")
    assert "lua" in centre.scontrol("show", "config").partition("JobSubmitPlugins")[2].partition("\n")[0]
    whale = centre.train(gpus=GPUS, seconds=5)
    centre.trains(whale)
    assert not (centre.root / "run/tiresias/lease").exists(), "job_submit.lua would set jobs aside"
    small = [centre.submit(command="sleep 1", user="bob", gpus=gpus) for gpus in (1, 4, GPUS)]
    shown = centre.show(small[0])
    assert shown["EligibleTime"] == shown["SubmitTime"], "nobody set it aside"
    assert shown["Priority"] != "0", "nobody holds it"
    centre.until(lambda: centre.published(whale).get("phase") == "to stop", "it would not be preempted", whale)
    status = centre.status()
    assert status["shadow"]["preempt"] == {"jobs": 1, "gpus": GPUS}
    assert centre.said(whale, "shadow")[0].startswith("would be preempted for job ")
    for job in (whale, *small):
        ended = centre.reaches(job, "COMPLETED")
        assert ended["Restarts"] == "0", "\n".join(centre.last_state([job]))
    assert centre.command("deadman", "--after", "1", "--config", centre.config).returncode == 0
    centre.usual = False
    assert centre.stop() == 0
    assert centre.command("controller", "--release", "--config", centre.config).returncode == 0, "as ExecStopPost does"
    assert asked.writes() == {SUBMIT: 4, "REQUEST_COMPLETE_BATCH_SCRIPT": 4} | _steps(asked.writes()), backend
    own = asked.by_controller()
    assert sum(own.values()) > 10, "the audit tells nothing"
    assert not [name for name in own if WRITES.fullmatch(name) or not READS.fullmatch(name)], own
    _what_it_saw(centre, [whale, *small])


def _steps(writes: Counter[str]) -> dict[str, int]:
    """What jobs and nodes report of steps: as many as there are."""
    return {
        name: count for name, count in writes.items() if name in ("REQUEST_STEP_COMPLETE", "REQUEST_CREATE_JOB_STEP")
    }


def _what_it_saw(centre: Any, jobs: list[str]) -> None:
    text = (centre.cluster.shared / centre.config.rpartition("/")[2]).read_text()
    state = text.partition("state = '")[2].partition("'")[0]
    words = ["whatif", "--from-shadow", state, "--policy", "las", "--threshold", "6", "--json", "/shared/out/seen.json"]
    done = centre.command(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads((centre.cluster.shared / "out/seen.json").read_text())
    assert (found["jobs"], found["nodes"] * found["gpus_per_node"]) == (len(jobs), GPUS)
    assert found["shadow"]["preempted"]["runs"] == 1
    assert found["shadow"]["preempted"]["seconds"] > 1
    assert found["shadow"]["sooner"]["runs"] >= 2, "the two that fit together"
    assert found["recorded"]["mean_jct"] > 1
    assert found["policies"]["las"]["preemptions"] >= 1


def test_the_same_question_finds_the_writes_of_mode_exact(centre: Any) -> None:
    audit(centre)
    asked = Asked(centre)
    job = centre.submit(command="sleep 1")
    centre.reaches(job, "COMPLETED")
    audit(centre, False)
    assert asked.by_controller()["REQUEST_UPDATE_JOB"] >= 1, asked.by_controller()
    assert asked.writes()["REQUEST_UPDATE_JOB"] >= 1, asked.writes()


def test_what_a_killed_exact_controller_held_is_given_back(centre: Any) -> None:
    """Nobody else would: the one in mode shadow renews the lease, and so the dead-man keeps still."""
    full = centre.train(gpus=GPUS)
    centre.trains(full)
    waits = centre.submit(gpus=GPUS)
    centre.until(lambda: centre.show(waits).get("Reason") == "JobHeldAdmin", "it is not held", waits)
    centre.usual = False
    centre.stop("KILL")
    config = centre.cluster.shared / centre.config.rpartition("/")[2]
    config.write_text(config.read_text().replace("mode = 'exact'", "mode = 'shadow'"))
    centre.start(centre.config)
    centre.until(lambda: centre.show(waits)["Priority"] != "0", "its hold is left", waits)
    assert centre.state(full) == "RUNNING"
