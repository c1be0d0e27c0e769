"""How a job uses its GPUs, as the control socket publishes it."""

from __future__ import annotations

from typing import Any

from tiresias.protocol.gpu_activity import idle_words
from tiresias.slurm_plugin.observation.unused_gpus import GpuUse


def shown_gpu_use(use: GpuUse | None) -> dict[str, Any]:
    """Return the keys of a job about its GPUs; empty where it reports nothing."""
    if use is None:
        return {"unused_gpus": [], "gpu_use_source": "", "gpu_use": ""}
    return {
        "unused_gpus": [round(one) for one in use.idle],
        "gpu_use_source": use.source,
        "gpu_use": use.stage.name.lower(),
    }


def unused_words(use: GpuUse | None) -> str:
    """Return that a job has not used its GPUs for so long that it is shown; "" where it has, or that is not known."""
    if use is None or not use.stage:
        return ""
    return f"has not used its GPUs for {idle_words(min(use.idle))}"
