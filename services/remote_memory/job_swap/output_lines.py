"""The lines of a job of sbatch about its remote memory, in Slurm's TaskEpilog, whose errors are in the job's output.

A job of tsbatch has them from its supervisor. They are printed once, at the end of the batch script.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tiresias.protocol import control, environment, site_configuration
from tiresias.protocol.job_log import log_line
from tiresias.protocol.job_memory_reports import JobMemoryReports, refusal_line
from tiresias.protocol.remote_memory_use import traffic_words

_BATCH_STEPS = ("", "4294967291")  # of SLURM_STEP_ID


def print_lines(env: Mapping[str, str]) -> None:
    """Print which nodes have refused the request, and what was written and read; nothing for a job without remote memory."""
    if env.get(environment.CONTROL_ROOT) or env.get("SLURM_STEP_ID", "") not in _BATCH_STEPS:
        return
    start = env.get("SLURM_JOB_START_TIME", "")
    reports = JobMemoryReports.of_environment(_control_folder(env), env, float(start) if start.isdecimal() else 0.0)
    if not reports.files.exists():
        return
    uses = reports.uses()
    refused = {each.node: each.refused for each in uses if each.refused}
    if reason := reports.refusal():
        refused[reports.node] = reason
    for node, why in sorted(refused.items()):
        log_line(refusal_line(node, why))
    if any(not each.refused for each in uses):
        log_line(f"remote memory: {traffic_words(uses)}")


def _control_folder(env: Mapping[str, str]) -> Path:
    array, task = env.get("SLURM_ARRAY_JOB_ID"), env.get("SLURM_ARRAY_TASK_ID")
    name = f"{array}_{task}" if array and task else env.get("SLURM_JOB_ID", "none")
    return control.job_folder(site_configuration.control_root(), os.getuid(), name)
