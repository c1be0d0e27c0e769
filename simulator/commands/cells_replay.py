"""Replay recorded decisions of HiveD on virtual clusters, and name each event that differs.

CONFIG is a configuration of HiveD (physicalCluster, virtualClusters), as YAML or JSON. FILE has one sequence of events a line, as
JSON, gzip or not; a sequence that names another configuration is skipped. After the first event of a sequence that differs, later
ones can differ as a consequence. Where HiveD's published method breaks its own invariants before, that event is named, too.

Exit code 1: an event differs, or --invariants found a broken invariant.

examples:
  tiresias cells replay configs/n2x16_vc2.yaml oracle_traces.jsonl.gz
  tiresias cells replay configs/design.yaml oracle_traces.jsonl.gz --json
  tiresias cells replay configs/r2n4x4_vc3.yaml oracle_panics.jsonl.gz --invariants
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from tiresias.simulator.cell_replay.cell_events import read_sequences
from tiresias.simulator.cell_replay.comparison import SequenceComparison, compared
from tiresias.simulator.cell_replay.hived_config import read_hived_config


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("config", type=Path, metavar="CONFIG", help="configuration of HiveD, YAML or JSON")
    parser.add_argument("file", type=Path, metavar="FILE", help="recorded sequences, .jsonl or .jsonl.gz")
    parser.add_argument("--invariants", action="store_true", help="check all invariants after each event")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    spec = read_hived_config(args.config)
    sequences = [
        each for each in read_sequences(args.file) if not each.config or Path(each.config).name == args.config.name
    ]
    results = [compared(spec, sequence, invariants=args.invariants) for sequence in sequences]
    if args.json:
        print(json.dumps(_as_json(results), indent=1))
    else:
        _print(results)
    return int(any(not each.identical for each in results))


def _as_json(results: list[SequenceComparison]) -> dict[str, object]:
    return {
        "sequences": len(results),
        "events": sum(each.events for each in results),
        "identical": sum(each.identical for each in results),
        "different": [asdict(each) for each in results if not each.identical],
    }


def _print(results: list[SequenceComparison]) -> None:
    for each in results:
        for difference in each.differences:
            print(f"sequence {each.sequence}, event {difference.event}: {json.dumps(difference.request)}")
            print(f"  recorded: {json.dumps(difference.recorded)}\n  here:     {json.dumps(difference.here)}")
        for broken in each.broken:
            print(f"sequence {each.sequence}, {broken}")
        if each.published_breaks:
            print(f"sequence {each.sequence}: the published method breaks its own invariants, {each.published_breaks}")
    identical = sum(each.identical for each in results)
    print(f"{identical} of {len(results)} sequences identical, {sum(each.events for each in results)} events")
