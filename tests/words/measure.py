#!/usr/bin/env python3
"""Measure the words, the docstrings and the shape of the source tree, of any revision.

    tests/words/measure.py                                      the working tree
    tests/words/measure.py --revision c11c38e --revision HEAD   two revisions side by side
    tests/words/measure.py --list --under wrappers              each banned word in a folder, with file and line
    tests/words/measure.py --undocumented                       each public name without a summary sentence
    tests/words/measure.py --json                               everything as JSON

banned.py holds the banned words (they follow the project's vocabulary), allowed.txt the uses that are kept, each with
the reason. docs/ contains the results as part of the contributors' pages.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.words.measure", *sys.argv[1:]])

import argparse
import json
from typing import Any

from tests.words.banned import Hit, hits_of
from tests.words.docstrings import Documented, documented_of, share
from tests.words.kept import Kept
from tests.words.shape import shape_of
from tests.words.trees import Tree, of_folder, of_revision, of_work_tree


def main() -> None:
    options = _options()
    trees = [of_revision(revision) for revision in options.revision or ()] or [
        of_folder(options.tree) if options.tree else of_work_tree()
    ]
    measured = {tree.name: _measure(tree, options.under) for tree in trees}
    if options.json:
        print(json.dumps(measured, indent=1, default=str))
    elif options.list:
        _print_hits(measured)
    elif options.undocumented:
        _print_undocumented(measured)
    else:
        _print_table(measured)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revision", action="append", metavar="REV", help="a git revision; may be repeated")
    parser.add_argument("--tree", metavar="FOLDER", help="any folder, in place of this repository")
    parser.add_argument("--under", default="", metavar="PREFIX", help="only files whose path starts with PREFIX")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--list", action="store_true", help="print each banned word that is not in allowed.txt")
    output.add_argument("--undocumented", action="store_true", help="print each public name without a summary sentence")
    output.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser.parse_args()


def _measure(tree: Tree, under: str) -> dict[str, Any]:
    """Return all figures of one tree; the keys of the JSON output."""
    tree = tree.under(under)
    hits = [hit for path, text in tree.texts.items() for hit in hits_of(path, text)]
    names = [name for path, text in tree.programs.items() for name in documented_of(path, text)]
    return {"words": _words(tree, hits), "docstrings": _docstrings(names), "shape": shape_of(tree)}


def _words(tree: Tree, hits: list[Hit]) -> dict[str, Any]:
    kept = Kept.read()
    lines = sum(tree.lines().values())
    return {
        "lines": lines,
        "banned": len(hits),
        "per_1000_lines": round(1000 * len(hits) / max(lines, 1), 2),
        "without_reason": sum(not kept.reason(hit) for hit in hits),
        "folders": {
            folder: {
                "lines": count,
                "banned": sum(hit.folder == folder for hit in hits),
                "per_1000_lines": round(1000 * sum(hit.folder == folder for hit in hits) / max(count, 1), 2),
            }
            for folder, count in tree.lines().items()
        },
        "hits": [{**vars(hit), "reason": kept.reason(hit)} for hit in hits],
    }


def _docstrings(names: list[Documented]) -> dict[str, Any]:
    return {
        "public": len(names),
        "documented_percent": share(names),
        "folders": {
            folder: share([name for name in names if name.folder == folder])
            for folder in sorted({n.folder for n in names})
        },
        "undocumented": [f"{name.path}:{name.line}: {name.name}: {name.lack}" for name in names if name.lack],
    }


def _print_hits(measured: dict[str, Any]) -> None:
    for figures in measured.values():
        for hit in figures["words"]["hits"]:
            if not hit["reason"]:
                print(f"{hit['path']}:{hit['line']}: {hit['group']}: {hit['word']!r}: {hit['text']}")
        print(
            f"{figures['words']['without_reason']} without a reason in allowed.txt, {figures['words']['banned']} in all"
        )


def _print_undocumented(measured: dict[str, Any]) -> None:
    for figures in measured.values():
        print("\n".join(figures["docstrings"]["undocumented"]))
        print(
            f"{figures['docstrings']['documented_percent']} % of {figures['docstrings']['public']} public names documented"
        )


def _print_table(measured: dict[str, Any]) -> None:
    rows = {name: _rows(figures) for name, figures in measured.items()}
    labels = list(dict.fromkeys(label for figures in rows.values() for label in figures))
    width = max(map(len, labels))
    print(" " * width, *(f"{name[:12]:>12}" for name in rows))
    for label in labels:
        print(f"{label:{width}}", *(f"{figures.get(label, '-'):>12}" for figures in rows.values()))


def _rows(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the lines of the printed table."""
    words, documented = figures["words"], figures["docstrings"]
    rows = {
        "lines of text": words["lines"],
        "banned words": words["banned"],
        "banned words per 1,000 lines": words["per_1000_lines"],
        "banned words without a reason": words["without_reason"],
    }
    rows |= {f"  {name}/ per 1,000 lines": each["per_1000_lines"] for name, each in words["folders"].items()}
    rows["public docstrings, %"] = documented["documented_percent"]
    rows |= {f"  {name}/ docstrings, %": percent for name, percent in documented["folders"].items()}
    for part, shape in figures["shape"].items():
        rows |= {f"{part}: {label}": len(v) if isinstance(v, dict) else v for label, v in shape.items()}
    return rows


if __name__ == "__main__":
    main()
