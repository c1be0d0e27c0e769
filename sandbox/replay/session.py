"""Replays one trace under several policies at the same time, displays the progress, and measures the results."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

from rich.console import Console
from rich.live import Live

from tiresias.errors import TiresiasError
from tiresias.profiler import build
from tiresias.protocol.status import Status
from tiresias.sandbox import host, pyslurm_layer, rootfs
from tiresias.sandbox.replay import (
    fragmentation,
    invariants,
    latency,
    progress_view,
    replay_report,
    shared_site,
    site_report,
    slurm_order_log,
    start_overhead,
    tenant_report,
)
from tiresias.sandbox.replay.chaos import Chaos, Faults
from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.replay_policies import MANAGED_POLICIES
from tiresias.sandbox.replay.replay_results import JobResult, slurm_runs
from tiresias.sandbox.replay.setup import Options
from tiresias.sandbox.replay.shared_site import CPU_ONLY
from tiresias.sandbox.replay.slurm_inversions import SlurmOrderJudge
from tiresias.sandbox.rootfs import SUITES
from tiresias.simulator.trace import TraceJob
from tiresias.slurm_plugin.state.journal import KEPT_DECISIONS
from tiresias.slurm_plugin.state.journal_history import History
from tiresias.slurm_plugin.state.journal_rows import Decision
from tiresias.slurm_plugin.views.status import render_status

POLL_INTERVAL_S = 1.0
PROGRESS_LINE_INTERVAL_S = 15.0  # without a terminal
START_DELAY_S = 2.0  # from the last cluster's start to time 0 of the trace

Outcome = dict[str, Any]


def available_suite(requested: str, console: Console) -> str:
    """Build the requested suite, or for "" the first available one, and return its name.

    Prints a line for each unavailable suite, and one if the profiler cannot record on this host.

    Raises:
        TiresiasError: no suite is available, as raised by `rootfs.ensure`.
    """

    def report(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    host.require_tools()
    if reason := build.problem():
        report(f"the profiler does not record on this host: {reason}")
    for suite in [] if requested else list(SUITES)[:-1]:
        try:
            pyslurm_layer.ensure(rootfs.ensure(suite, report=report), report=report)
            return suite
        except TiresiasError as error:
            report(f"no Debian {suite} ({error}): trying the next")
    last = requested or list(SUITES)[-1]
    pyslurm_layer.ensure(rootfs.ensure(last, report=report), report=report)
    return last


def side_by_side(
    policies: Sequence[str],
    jobs: Sequence[TraceJob],
    options: Options,
    console: Console,
    *,
    watch: bool,
    keep: bool,
    trouble: Faults | None = None,
) -> dict[str, Outcome]:
    """Return, by policy, the report's summary, wall_seconds, `latency` (real seconds), `invariants`, for policies of the controller
    `claims` (jobs whose reports became claims of remaining time), where Slurm orders the jobs `unexplained` inversions, with
    tenants their waits (`tenants`), with --shares `users`, with accounting `sacct`.

    Raises:
        TiresiasError: a process of a replay died.
    """
    with contextlib.ExitStack() as stack:
        replays = _bring_up(policies, jobs, options, keep, stack)
        start = time.time() + START_DELAY_S
        for replay in replays:
            replay.begin(start)
        chaos = [Chaos(replay, trouble or Faults()) for replay in replays]
        with _display(console, watch) as show:
            while not _all_over(replays):
                show(replays, time.time() - start, options)
                for each in chaos:
                    each.tick(time.time() - start)
                time.sleep(POLL_INTERVAL_S)
        return {replay.policy: _measure(replay, options) for replay in replays}


def _bring_up(
    policies: Sequence[str], jobs: Sequence[TraceJob], options: Options, keep: bool, stack: contextlib.ExitStack
) -> list[Replay]:
    """Start all clusters at once; the stack stops them, also after a failure or an interrupt."""
    pool = ThreadPoolExecutor(len(policies))
    pending = [pool.submit(Replay, policy, jobs, options, keep) for policy in policies]
    stack.callback(_close, pending)
    return [each.result() for each in pending]


def _close(pending: Sequence[Future[Replay]]) -> None:
    for each in pending:
        if each.exception() is None:
            each.result().close()


def _all_over(replays: Sequence[Replay]) -> bool:
    """Poll every replay, also after the first one that is not over."""
    over = [replay.over() for replay in replays]
    return all(over)


def _measure(replay: Replay, options: Options) -> Outcome:
    replay.settle()
    everything = replay.results()
    results = [one for one in everything if not options.kind(one.job)]
    known: Outcome = {"sacct": replay.accounting()} if options.accounting else {}
    if options.tenants:
        known["tenants"] = tenant_report.waits(results, options.time_scale)
    replay.stop_controller()
    slurm = slurm_runs(replay.cluster.log / "jobcomp.log")
    kept = invariants.count(everything, slurm)
    decisions: list[Decision] = []
    spans: dict[str, list[float]] = {}
    if replay.policy in MANAGED_POLICIES:
        history = History.of(replay.journal)
        kept |= invariants.compare_ledger(results, slurm, history)
        decisions = history.decisions(limit=KEPT_DECISIONS)[::-1]
        kept |= invariants.compare_plan(decisions)
        spans |= {kind: latency.spans(decisions, kind) for kind in latency.SPANS}
        given = start_overhead.given_by_controller(decisions)
        known["claims"] = sum(row.claim_left is not None for row in history.jobs())
    else:
        given = start_overhead.launched_by_slurmd(replay.cluster.log.glob("gpu*.log"))
    if replay.has_slurm_order:
        gpus = {one.id: 0 if options.kind(one.job) == CPU_ONLY else one.job.num_gpus for one in everything}
        judge = SlurmOrderJudge(*replay.slurm_order(), decisions, gpus, options.gpus)
        sdiag = replay.cluster.run(["sdiag"], user="slurm").stdout
        kept |= judge.count() | {"backfilled_by_sdiag": slurm_order_log.backfilled(sdiag)}
        known["unexplained"] = list(judge.unexplained())
    first, restarts = start_overhead.measured(results, given)
    handovers = latency.handovers(results)
    spans |= {"first_line": first, "restart": restarts, "release": latency.releases(handovers, given)}
    spans["arrival"] = latency.arrivals(results, given)
    spans["handover"] = [handover.start - handover.end for handover in handovers]
    return {
        **replay_report.summary(results, options.gpus, options.time_scale),
        **(_of_site(replay, everything, options) if options.site else {}),
        "fragmentation": fragmentation.share(results, options.gpus, options.gpus_per_node),
        "training": replay_report.training(results, options.time_scale),
        "wall_seconds": replay.ended - replay.started,
        "latency": {kind: latency.summary(lengths) for kind, lengths in spans.items()},
        "invariants": kept,
        **known,
    }


def _of_site(replay: Replay, everything: Sequence[JobResult], options: Options) -> Outcome:
    """Return what the accounts of --shares, the QOS and the unmanaged jobs add to the results."""
    assert options.site is not None
    preemptions = replay.slurm_order()[1].preemptions
    suspensions = {"suspensions": sum(each.done == "suspended" for each in preemptions)}
    return {
        **site_report.waits(everything, options.site, options.time_scale),
        **(suspensions if shared_site.preempts(replay.policy) else {}),
        "users": site_report.users(everything, options.site, options.time_scale),
    }


class _Show:
    """Draws the live view, or prints a line at intervals where there is no terminal."""

    def __init__(self, console: Console, live: Live | None) -> None:
        self._console, self._live, self._next = console, live, 0.0

    def __call__(self, replays: Sequence[Replay], seconds: float, options: Options) -> None:
        progress = {replay.policy: replay.last_progress for replay in replays}
        if self._live:
            self._live.update(
                progress_view.render(progress, seconds, options.time_scale, self._status(replays)), refresh=True
            )
        elif seconds >= self._next:
            self._console.print(progress_view.line(progress, seconds), highlight=False, soft_wrap=True)
            self._next = seconds + PROGRESS_LINE_INTERVAL_S

    def _status(self, replays: Sequence[Replay]) -> Any:
        status = next((status for replay in replays if (status := replay.status())), None)
        height = self._console.height - len(replays) - 3
        if status is None or height < 8:
            return None
        with contextlib.suppress(TiresiasError):
            return render_status(cast(Status, status), self._console.width, height, time.time())
        return None


@contextlib.contextmanager
def _display(console: Console, watch: bool) -> Iterator[_Show]:
    if not watch:
        yield _Show(console, None)
        return
    with Live(console=console, auto_refresh=False, transient=True, screen=False) as live:
        yield _Show(console, live)
