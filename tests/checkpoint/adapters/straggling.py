"""A training program of someone else with one slow rank or server: python straggling.py RANK FAST SLOW PROGRAM [ARGUMENTS]

The steps of that rank's optimizer, or of the server of that number, take SLOW seconds longer, those of the others FAST seconds. All
report their own work every second.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from tiresias.checkpoint import ServerReport, program_report
from tiresias.protocol import rank_files

rank, fast, slow = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
seconds = slow if int(os.environ["RANK"]) == rank else fast


def slowly(optimizer: Any, arguments: Any, options: Any) -> None:
    time.sleep(seconds)


def stepped(report: ServerReport) -> None:
    time.sleep(seconds)
    step_of_server(report)


step_of_server, ServerReport.stepped = ServerReport.stepped, stepped  # type: ignore[method-assign,assignment]
rank_files.WORK_S, program_report.PROGRESS_S = 1.0, 0.5
register_optimizer_step_post_hook(slowly)
sys.argv = sys.argv[4:]
runpy.run_path(sys.argv[0], run_name="__main__")
