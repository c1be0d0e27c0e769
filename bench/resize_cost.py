"""What changes of size of elastic jobs cost: seconds from the decision until the job makes steps again, of a controller's journal.

    python bench/resize_cost.py JOURNAL.sqlite [...]

Prints JSON: number of the changes, median and 95th percentile of the whole and of its parts, seconds.

cost     decision -> first step of the next run
released decision -> the job has saved, ended, and released its GPUs
waited   -> the next run begins: the job was held, changed and released again, and perhaps waited for GPUs
restored -> the first step of that run: start-up and restore

A change without a next run, or whose next run reports no step, is not counted.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

QUERY = """select began, before.end, after.start, after.restore from intent
join run as before using (key, restart) join run as after on after.key = intent.key and after.restart = intent.restart + 1
where kind = 'resize' and outcome like 'parked%' and after.restore is not null and before.end > 0"""


class ResizeCost(NamedTuple):
    """One change of size, in seconds."""

    released: float
    waited: float
    restored: float

    @property
    def cost(self) -> float:
        """The whole."""
        return self.released + self.waited + self.restored


def costs(journal: Path) -> list[ResizeCost]:
    """Return the changes that a journal has. Slurm's times are whole seconds: those of a part may be off by one."""
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
        rows = db.execute(QUERY).fetchall()
    return [ResizeCost(max(end - began, 0.0), start - max(end, began), restore) for began, end, start, restore in rows]


def summary(changes: Iterable[ResizeCost]) -> dict[str, object]:
    """Return the number of changes, with median and 95th percentile of each part."""
    found = list(changes)
    parts = {"cost": [one.cost for one in found]} | {
        name: [getattr(one, name) for one in found] for name in ResizeCost._fields
    }
    return {"resizes": len(found)} | {
        f"{name}_s": {"median": round(float(np.median(values)), 2), "p95": round(float(np.percentile(values, 95)), 2)}
        for name, values in parts.items()
        if values
    }


def main(paths: list[str]) -> int:
    """Print the summary of all journals."""
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    print(json.dumps(summary(one for path in paths for one in costs(Path(path)))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
