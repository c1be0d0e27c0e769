"""Requests that miss their slot in the execution cycle (AutoPS, section 4.3.3.2, outliers)."""

from __future__ import annotations

from tiresias.services.parameter_service.assignment.execution_cycle import TOLERANCE


def fits_in_cycle(cycle_s: float, elapsed_s: float, scheduled_s: float, late_s: float) -> bool:
    """Return whether a late request runs in this cycle; otherwise it waits for the next one.

    Args:
        cycle_s: Length of the cycle, seconds.
        elapsed_s: Seconds of the cycle that have passed.
        scheduled_s: Work of the scheduled requests that have not yet run in the cycle; their slots are reserved.
        late_s: Work of the late request.
    """
    return late_s <= cycle_s - elapsed_s - scheduled_s + TOLERANCE * cycle_s
