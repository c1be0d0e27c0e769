"""The fixed settings of `las` that `adaptive` is compared with, and what a preemption costs there."""

from __future__ import annotations

from dataclasses import replace

from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.simulation_rules import Cost

LAS = replace(PolicyConfig.paper(), thresholds=(3600.0,))
FIRST_START = replace(LAS, in_queue_order="first_start")

# 1 to 6 thresholds that rise 4 or 10 times, and one in the paper's order.
COST = Cost(resume=62.0)  # 13,724 s for 221 preemptions, section 5.2
LOWEST = [60.0 * 4**step for step in range(9)]
STEPS = ((1, 4), (2, 4), (4, 4), (6, 4), (4, 10))
FIXED = [
    *(
        replace(LAS, thresholds=tuple(low * ratio**at for at in range(count)))
        for low in LOWEST
        for count, ratio in STEPS
    ),
    *(replace(FIRST_START, thresholds=(low,)) for low in LOWEST),
]
