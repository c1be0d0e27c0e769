"""A mutation campaign: does any fast test notice when a line of code is wrong?

    python tests/mutants/run.py [--mutants 300] [--seed 1] [--folder NAME] [--json FILE]      (make test-mutants MUTANTS=300 SEED=1)

Draws --mutants mutations from each folder's (0: all), in proportion to its size, and runs for each the tests that execute its line.
Exit code 1 when a mutation of named.py survives.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # started by its path: once more, as a module of `tests`
    os.execv(sys.executable, [sys.executable, "-m", "tests.mutants.run", *sys.argv[1:]])

import argparse
import difflib
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.mutants.folders import FOLDERS, Folder
from tests.mutants.named import NAMED, Named
from tests.mutants.operators import Mutation, mutations
from tests.mutants.trial import Baseline, Copy, baseline, outcome

REPOSITORY = Path(__file__).resolve().parents[2]
OUTCOMES = ("killed", "timeout", "survived", "not_covered")


@dataclass(frozen=True, slots=True)
class Survivor:
    file: str
    line: int
    operator: str
    outcome: str
    diff: str


class Campaign:
    def __init__(self, copy: Copy, dice: random.Random, share: float) -> None:
        self._copy, self._dice, self._share = copy, dice, share
        self.counts: dict[str, Counter[str]] = {}
        self.survivors: list[Survivor] = []
        self.stale: list[str] = []

    def named(self) -> None:
        counts = self.counts.setdefault("named", Counter())
        for one in NAMED:
            found = self._try_named(one)
            counts["tried"] += 1
            counts[found] += 1
            print(f"named: {one.name}: {found}", flush=True)

    def _try_named(self, one: Named) -> str:
        before = (self._copy.root / one.path).read_text()
        if one.before not in before:
            self.stale.append(one.name)
            return "stale"
        after = before.replace(one.before, one.after, 1)
        seconds = baseline(self._copy, one.tests).seconds
        with self._copy.mutated(one.path, after):
            found = outcome(self._copy, seconds)
        if found == "survived":
            self.survivors.append(Survivor(one.path, 0, one.name, found, _diff(one.path, before, after)))
        return found

    def folder(self, name: str, folder: Folder) -> None:
        known = baseline(self._copy, folder.test_files(self._copy.root))
        counts = self.counts.setdefault(name, Counter())
        everything = list(self._mutations(folder))
        chosen = sorted(self._dice.sample(range(len(everything)), round(len(everything) * self._share)))
        counts["possible"] = len(everything)
        for place in chosen:
            path, mutation = everything[place]
            found = self._try(known, path, mutation)
            if found:
                counts["tried"] += 1
                counts[found] += 1
        print(f"{name}: {dict(counts)}", flush=True)

    def _mutations(self, folder: Folder) -> Iterator[tuple[str, Mutation]]:
        for file in folder.source_files(self._copy.root):
            for mutation in mutations(file.read_text()):
                yield str(file.relative_to(self._copy.root)), mutation

    def _try(self, known: Baseline, path: str, mutation: Mutation) -> str:
        """ "" where the mutation changes nothing."""
        before = (self._copy.root / path).read_text()
        after = mutation.of(before)
        if after is None:
            return ""
        tests = known.tests.get((path, mutation.line), set())
        found = "not_covered"
        if tests:
            with self._copy.mutated(path, after):
                found = outcome(self._copy, {test: known.seconds[test] for test in tests})
        if found in ("survived", "not_covered"):
            self.survivors.append(Survivor(path, mutation.line, mutation.operator, found, _diff(path, before, after)))
            print(f"  {found}: {path}:{mutation.line} {mutation.operator}", flush=True)
            print("".join(f"      {line}\n" for line in self.survivors[-1].diff.splitlines()), end="", flush=True)
        return found

    def result(self) -> dict[str, Any]:
        return {
            "folders": {
                name: {"possible": 0, **dict.fromkeys(OUTCOMES, 0), **found} for name, found in self.counts.items()
            },
            "stale": self.stale,
            "survivors": [asdict(one) for one in self.survivors],
        }


def _diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="", n=0)
    return "\n".join(line for line in list(lines)[2:] if not line.startswith("@@"))


def _share(mutants: int, names: Sequence[str]) -> float:
    """Of all mutations, so that about `mutants` are tried."""
    sources = [file.read_text() for name in names for file in FOLDERS[name].source_files(REPOSITORY)]
    total = sum(len(mutations(source)) for source in sources)
    return min(1.0, mutants / total) if mutants else 1.0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mutants", type=int, default=300, help="in all folders together, 0: all (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", action="append", choices=FOLDERS, help="only this one; several times")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(argv)
    names, began = args.folder or list(FOLDERS), time.monotonic()
    share = _share(args.mutants, names)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        campaign = Campaign(Copy(REPOSITORY, Path(folder)), random.Random(args.seed), share)
        campaign.named()
        for name in names:
            campaign.folder(name, FOLDERS[name])
            found = {"seed": args.seed, "seconds": round(time.monotonic() - began, 1), **campaign.result()}
            if args.json:
                args.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "survivors"}, indent=1))
    return 1 if campaign.stale or found["folders"]["named"]["survived"] else 0


if __name__ == "__main__":
    sys.exit(main())
