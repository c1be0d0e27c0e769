"""Release the holds of a dead or hung controller, so that Slurm schedules alone. For a timer (etc/tiresias-deadman.timer)
or cron, on any host with Slurm's commands and the state folder, preferably not only the controller's own.

The command watches the controllers' lease. A healthy controller changes it every few seconds, and the command ends at once.
Where nothing has changed for the given time, it takes the lead away, lifts the controller's holds and pins, and gives up
the lead. Only its own monotonic clock counts, so the hosts' clocks may differ. A controller that resumes later finds itself
superseded, and manages its jobs again.

examples:
  tiresias deadman                         after one lease without a change, and ten seconds in which a standby may take over
  tiresias deadman --after 300
  * * * * * root tiresias deadman          in a crontab
"""

from __future__ import annotations

import argparse
import math
import sys

from tiresias.errors import UsageError
from tiresias.slurm_plugin.commands.admin_client import add_config_option
from tiresias.slurm_plugin.config.for_release import load_for_release
from tiresias.slurm_plugin.daemon.release import release
from tiresias.slurm_plugin.failover.fail_open import held, is_silent, seized
from tiresias.slurm_plugin.failover.standby import leadership_of

STANDBY_DELAY_S = 10.0  # a standby waits for one lease, and so takes over first


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--after",
        type=float,
        metavar="SECONDS",
        help="without a change of the lease; default: one lease (1.5 periods) and 10 s",
    )
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    config = load_for_release(args.config).config
    leadership = leadership_of(config)
    after = leadership.seconds + STANDBY_DELAY_S if args.after is None else args.after
    if not (math.isfinite(after) and after > 0):
        raise UsageError(f"--after {after:g}: give seconds above 0")
    leader = leadership.lease()
    if held(config) == 0 or not is_silent(leadership, after):
        return 0
    with seized(config) as seized_lead:
        if seized_lead is None:
            return 0
        released = release(config, seized_lead)
    count = "an unknown number of" if released.jobs is None else released.jobs
    print(f"released {count} jobs: {leader} had not renewed its lease for {after:g} s; Slurm schedules alone")
    for problem in released.problems:
        print(f"tiresias: {problem}", file=sys.stderr)
    return 1 if released.problems else 0
