"""Prints the coverage of each folder, from the JSON of coverage.py: python tests/coverage_table.py build/coverage/coverage.json"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def main() -> None:
    print(table(json.loads(Path(sys.argv[1]).read_text())["files"]))


def table(files: dict[str, dict[str, dict[str, int]]]) -> str:
    """Return one row a folder, and one for all files together: statements, lines covered, branches covered."""
    folders: dict[str, Counter[str]] = {}
    for name, measured in files.items():
        for folder in (name.partition("/")[0], "all"):
            folders.setdefault(folder, Counter()).update({key: measured["summary"][key] for key in COUNTS})
    order = sorted(folders, key=lambda name: (name == "all", name))
    rows = [f"{'folder':14} {'statements':>10} {'lines':>7} {'branches':>9}"]
    rows += [_row(name, folders[name]) for name in order]
    return "\n".join(rows)


def _row(name: str, counts: Counter[str]) -> str:
    lines = _percent(counts["covered_lines"], counts["num_statements"])
    branches = _percent(counts["covered_branches"], counts["num_branches"])
    return f"{name:14} {counts['num_statements']:10,} {lines:>7} {branches:>9}"


def _percent(covered: int, possible: int) -> str:
    return f"{100 * covered / possible:.1f}%" if possible else "-"


if __name__ == "__main__":
    main()
