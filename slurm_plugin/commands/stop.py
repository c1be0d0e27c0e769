"""Stop the controller. Its preemptions under way come to their end, its holds are lifted, and Slurm carries on alone; where another
controller stands by, that one goes on instead. `systemctl stop` and `restart` keep the holds for the next controller instead, until
`tiresias deadman` or this command lifts them. For root and the controller's own user.

--release is the kill switch. No controller leads any more on any host, also none that systemd starts again, until `tiresias
resume`. The holds are lifted at once: by the controller, or, where it is dead, hung or elsewhere, by this command in its place.
A job that is saving just now runs on by itself. Both may be given again.

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
from tiresias.slurm_plugin.commands.admin_client import HASTE, PATIENCE, add_config_option, give
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.config_for_release import load_for_release
from tiresias.slurm_plugin.daemon.release import release
from tiresias.slurm_plugin.failover.fail_open import held, is_stopped, seized
from tiresias.slurm_plugin.failover.standby import leadership_of
from tiresias.slurm_plugin.sockets.admin_requests import OUTCOME, STOP, clean
from tiresias.slurm_plugin.sockets.control_socket import ask
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.switches import stop

_LOOK = 0.2  # seconds between two


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--release", action="store_true", help="the kill switch: on all hosts, and for good")
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="told to whoever starts a controller; with --release"
    )
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
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
        print(f"{leader} goes on in its place")
        return 0
    return _tell(*_release_kept(config))


def _release_kept(config: Config) -> tuple[int | None, list[str]]:
    """The holds that a controller kept when it ended for a restart. Returns the jobs that are still held, and why."""
    problems = list[str]()
    if held(config):
        with seized(config) as leadership:
            if leadership is None:
                raise Unavailable("another controller took the lead just now: retry the command")
            problems = release(config, leadership).problems
    return held(config), problems


def _order(config: Config, socket: Path, request: dict[str, object]) -> bool:
    """False when no controller answers on this host. One that hangs is told of; with --release it is not needed."""
    try:
        print(give(socket, request, HASTE if request["release"] else PATIENCE))
        _wait_for_its_end(config, socket)
    except Unavailable:
        return False
    except TiresiasError as error:
        if not request["release"]:
            raise
        print(f"tiresias: {error}", file=sys.stderr)
    return True


def _wait_for_its_end(config: Config, socket: Path) -> None:
    """Its socket is the last that a controller closes. It has time as long as it gets on with its releases."""
    left, deadline = math.inf, time.monotonic() + PATIENCE
    with contextlib.suppress(Unavailable):
        while ask(socket, {"op": OUTCOME, "order": 0}) and time.monotonic() < deadline:
            if (now_left := held(config) or 0) < left:
                left, deadline = now_left, time.monotonic() + PATIENCE
            time.sleep(_LOOK)
        raise TiresiasError(f"the controller has not ended within {PATIENCE:g} s: see its log, then end its process")


def _leave_slurm_alone(config: Config, reason: str) -> int:
    """Whatever is not so yet: nobody leads, nobody will, nothing is held."""
    leader, problems = leadership_of(config).lease(), list[str]()
    is_alone = leader.released and held(config) == 0 and is_stopped(config)
    if not is_alone:
        with seized(config) as ours:
            if ours is None:
                raise Unavailable("another controller took the lead just now: retry the command")
            with closing(Journal(config.paths.state, ours.epoch)) as journal:
                stop(journal, time.time(), "root", reason)  # first: it holds even if Slurm does not answer now
            problems = release(config, ours).problems
    return _tell(held(config), problems)


def _tell(left: int | None, problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"tiresias: {problem}", file=sys.stderr)
    if left == 0:
        print("no job is held by Tiresias; Slurm carries on alone")
    return 1 if left else 0
