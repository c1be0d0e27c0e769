"""Stop the controller. Its preemptions in progress are completed, its holds are lifted, and Slurm schedules alone; a
standby controller takes over instead. `systemctl stop` and `restart` keep the holds for the next controller, until
`tiresias deadman` or this command lifts them. For root and the controller's own user.

--release is the kill switch. No controller leads any more on any host, even if systemd starts it again, until `tiresias
resume`. The holds are lifted at once: by the controller, or, where it is dead, hung or on another host, by this command. A
job that is saving continues to run. Both may be repeated.

examples:
  tiresias stop
  tiresias stop --release --reason "jobs vanish, investigating"
  tiresias resume                      lets controllers start again
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.commands.admin_client import (
    ORDER_TIMEOUT_S,
    RELEASE_ORDER_TIMEOUT_S,
    add_config_option,
    give,
)
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.config.for_release import load_for_release
from tiresias.slurm_plugin.daemon.release import release
from tiresias.slurm_plugin.failover.fail_open import held, is_stopped, seized
from tiresias.slurm_plugin.failover.standby import leadership_of
from tiresias.slurm_plugin.sockets.admin_requests import OUTCOME, STOP, clean
from tiresias.slurm_plugin.sockets.control_client import ask
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.switches import stop

_POLL_INTERVAL_S = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--release", action="store_true", help="the kill switch: on all hosts, until `tiresias resume`")
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="shown when a controller is started; with --release"
    )
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    config = load_for_release(args.config).config
    socket = config.paths.run / "control.sock"
    request = {"op": STOP, "release": args.release, "reason": args.reason}
    ended = _order(config, socket, request)
    if args.release:
        return _leave_slurm_alone(config, clean(args.reason))
    leader = leadership_of(config).lease()
    leads = bool(leader.epoch) and not leader.released
    if leads and not ended:
        raise TiresiasError(
            f"no controller answers on this host, and {leader} has not given up the lead: stop it there, or use --release"
        )
    print("the controller has ended" if ended else "no controller runs")
    if leads:
        print(f"{leader} takes over")
        return 0
    return _report(*_release_kept(config))


def _release_kept(config: Config) -> tuple[int | None, list[str]]:
    """Release the holds kept for a restart; return the number of jobs that are still held, and why."""
    problems = list[str]()
    if held(config):
        with seized(config) as leadership:
            if leadership is None:
                raise Unavailable("another controller took the lead just now: retry the command")
            problems = release(config, leadership).problems
    return held(config), problems


def _order(config: Config, socket: Path, request: dict[str, object]) -> bool:
    """Order the controller to stop; return False if none answers on this host.

    A controller that hangs is reported; --release does not need it.
    """
    try:
        print(give(socket, request, RELEASE_ORDER_TIMEOUT_S if request["release"] else ORDER_TIMEOUT_S))
        _wait_for_its_end(config, socket)
    except Unavailable:
        return False
    except TiresiasError as error:
        if not request["release"]:
            raise
        print(f"tiresias: {error}", file=sys.stderr)
    return True


def _wait_for_its_end(config: Config, socket: Path) -> None:
    """Wait until the socket is closed, a controller's last action, as long as its releases make progress."""
    left, deadline = math.inf, time.monotonic() + ORDER_TIMEOUT_S
    with contextlib.suppress(Unavailable):
        while ask(socket, {"op": OUTCOME, "order": 0}) and time.monotonic() < deadline:
            if (now_left := held(config) or 0) < left:
                left, deadline = now_left, time.monotonic() + ORDER_TIMEOUT_S
            time.sleep(_POLL_INTERVAL_S)
        raise TiresiasError(
            f"the controller has not ended within {ORDER_TIMEOUT_S:g} s: see its log, then end its process"
        )


def _leave_slurm_alone(config: Config, reason: str) -> int:
    """Ensure that no controller leads or can lead and that no job is held; repeatable."""
    leader, problems = leadership_of(config).lease(), list[str]()
    is_alone = leader.released and held(config) == 0 and is_stopped(config)
    if not is_alone:
        with seized(config) as leadership:
            if leadership is None:
                raise Unavailable("another controller took the lead just now: retry the command")
            with closing(Journal(config.paths.state, leadership.epoch)) as journal:
                stop(journal, time.time(), "root", reason)  # first: it applies even if Slurm does not answer now
            problems = release(config, leadership).problems
    return _report(held(config), problems)


def _report(left: int | None, problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"tiresias: {problem}", file=sys.stderr)
    if left == 0:
        print("no job is held by Tiresias; Slurm schedules alone")
    return 1 if left else 0
