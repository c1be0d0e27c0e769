"""Submits a replay's jobs at their moments, from inside the cluster and as one of its users: one process for all of them.

    python3 -m tiresias.sandbox.replay_submitter PLAN.jsonl LOG.jsonl

A line of PLAN: {"job": "7", "at": epoch seconds, "command": ["sbatch", ...]}, in order of time. A line of LOG for each:
{"job": "7", "time": epoch seconds before the submission, "id": "123", "error": ""}.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

TIMEOUT = 60.0  # seconds for one submission


def main(argv: list[str]) -> int:
    plan, log = Path(argv[0]), Path(argv[1])
    with log.open("a", buffering=1) as out:
        for line in plan.read_text().splitlines():
            entry = json.loads(line)
            time.sleep(max(0.0, entry["at"] - time.time()))
            print(json.dumps({"job": entry["job"], "time": time.time(), **_submit(entry["command"])}), file=out)
    return 0


def _submit(command: list[str]) -> dict[str, str]:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"id": "", "error": f"{command[0]} did not answer in {TIMEOUT:.0f} s"}
    return {"id": done.stdout.strip().partition(";")[0], "error": done.stderr.strip() if done.returncode else ""}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
