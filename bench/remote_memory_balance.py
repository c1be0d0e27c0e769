"""Placement and eviction of slabs by the code that clients and donors use. Prints JSON.

    python bench/remote_memory_balance.py [--seeds 200] [--rounds 20000]

placement  400 slabs of one region, and of 40 regions with 10 slabs each, on 32 donors with equal memory: slabs of the fullest donor
           over the mean, by the power of two choices with new donors first, and by a random donor for each slab.
eviction   The probability that 10 evicted slabs are all lightly active, where a slab is busy with probability p and the activity of
           10 + E' slabs of 400 is queried; E' = 0 is a random eviction. `formula` is that of the thesis (section 2.5.2).

The paper prints 1.62 and 1.12 for the placement, 0.028 and 0.983 for p = 0.3 with E' = 0 and 10.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from random import Random
from typing import Any

from tiresias.services.remote_memory.slabs.batch_eviction import eviction_candidates, least_active
from tiresias.services.remote_memory.slabs.donor_choice import candidate_donors, emptiest_donor
from tiresias.services.remote_memory.slabs.slab_table import HOT_SLAB, SlabMapping, SlabTable

DONORS, SLABS, CAPACITY, EVICT = 32, 400, 64, 10


def two_choices(table: SlabTable, load: dict[str, int], random: Random) -> str:
    """Return the donor of the next slab."""
    for asked in candidate_donors(sorted(load), table.donors(), random):
        if chosen := emptiest_donor({donor: CAPACITY - load[donor] for donor in asked}):
            return chosen
    raise ValueError("all donors are full")


def placed(regions: int, by_choice: bool, random: Random) -> float:
    """Return the slabs of the fullest donor over the mean."""
    load = {f"node{number}": 0 for number in range(DONORS)}
    tables = [SlabTable(SLABS // regions, 1) for _ in range(regions)]
    for slab in range(SLABS // regions):
        for table in tables:
            donor = two_choices(table, load, random) if by_choice else random.choice(sorted(load))
            load[donor] += 1
            table.map(slab, SlabMapping(donor, load[donor]))
    return max(load.values()) / (SLABS / DONORS)


def placement(regions: int, by_choice: bool, seeds: int) -> dict[str, float]:
    """Return the ratio over the seeds."""
    found = [placed(regions, by_choice, Random(seed)) for seed in range(seeds)]
    return {"mean": round(statistics.mean(found), 4), "worst": max(found)}


def light_evictions(busy: float, extra: int, rounds: int, random: Random) -> float:
    """Return the share of the rounds in which every evicted slab is lightly active."""
    light = 0
    for _ in range(rounds):
        activity = {slab: 10 * HOT_SLAB if random.random() < busy else 0.0 for slab in range(SLABS)}
        chosen = least_active(eviction_candidates(range(SLABS), EVICT, random, extra), activity, EVICT)
        light += all(activity[slab] < HOT_SLAB for slab in chosen)
    return light / rounds


def formula(busy: float, extra: int) -> float:
    """Return the probability of the thesis."""
    asked = EVICT + extra
    return sum(math.comb(asked, i) * (1 - busy) ** i * busy ** (asked - i) for i in range(EVICT, asked + 1))


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="placements of each kind")
    parser.add_argument("--rounds", type=int, default=20000, help="evictions of each kind")
    args = parser.parse_args()
    random = Random(1)
    results: dict[str, Any] = {"donors": DONORS, "slabs": SLABS, "placement": {}, "eviction": {}}
    for regions in (1, 40):
        results["placement"][f"{regions} regions"] = {
            "power_of_two": placement(regions, True, args.seeds),
            "random": placement(regions, False, args.seeds),
        }
    for busy in (0.1, 0.3, 0.5):
        for extra in (0, 2, 5, 10):
            simulated = light_evictions(busy, extra, args.rounds, random)
            results["eviction"][f"p={busy} E'={extra}"] = {
                "simulated": round(simulated, 4),
                "formula": round(formula(busy, extra), 4),
            }
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
