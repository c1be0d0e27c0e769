"""The agent: what a PyTorch training program imports to train through the parameter service.

from tiresias.services.parameter_service.agent import ParameterServiceOptimizer, ServiceHook, average_by_service
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiresias.services.parameter_service.agent.ddp_hook import ServiceHook, average_by_service
    from tiresias.services.parameter_service.agent.service_optimizer import ParameterServiceOptimizer

__all__ = ["ParameterServiceOptimizer", "ServiceHook", "average_by_service"]
_MODULES = {
    "ParameterServiceOptimizer": "service_optimizer",
    "ServiceHook": "ddp_hook",
    "average_by_service": "ddp_hook",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used.

    Raises:
        ImportError: PyTorch is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            "the agent of the parameter service needs PyTorch: pip install 'slurm-tiresias[torch]'"
        ) from None
