"""Release what a dead or hung controller holds, so that Slurm carries on alone. For a timer (etc/tiresias-deadman.timer) or cron,
on any host with Slurm's commands that sees the state folder: best not only on the controller's own.

It watches the controllers' lease. A controller that is well changes it every few seconds, and this command is over at once. When
nothing has changed for the given time, it takes the lead away, lifts the controller's holds and pins, and gives the lead up. Only
its own steady clock counts, so hosts' clocks may differ. A controller that wakes up later finds itself superseded, and takes its
jobs up again.

examples:
  tiresias deadman                         after one lease of silence, and ten seconds in which a standby may take over
  tiresias deadman --after 300
  * * * * * root tiresias deadman          in a crontab
"""

from __future__ import annotations

import argparse
import math
import sys

from tiresias.errors import UsageError
from tiresias.slurm_plugin.commands.admin_client import add_config_option
from tiresias.slurm_plugin.config_for_release import load_for_release
from tiresias.slurm_plugin.daemon.release import release
from tiresias.slurm_plugin.failover.fail_open import held, is_silent, seized
from tiresias.slurm_plugin.failover.standby import leadership_of

STANDBY_SECONDS = 10.0  # for a standby, which waits for one lease, to be quicker


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--after", type=float, metavar="SECONDS", help="of silence; default: a leader's lease (1.5 periods) and 10 s"
    )
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    config = load_for_release(args.config).config
    leadership = leadership_of(config)
    after = leadership.seconds + STANDBY_SECONDS if args.after is None else args.after
    if not (math.isfinite(after) and after > 0):
        raise UsageError(f"--after {after:g}: give seconds above 0")
    leader = leadership.lease()
    if held(config) == 0 or not is_silent(leadership, after):
        return 0
    with seized(config) as ours:
        if ours is None:
            return 0
        released = release(config, ours)
    print(f"released {released.jobs} jobs: {leader} had said nothing for {after:g} s; Slurm carries on alone")
    for problem in released.problems:
        print(f"tiresias: {problem}", file=sys.stderr)
    return 1 if released.problems else 0
