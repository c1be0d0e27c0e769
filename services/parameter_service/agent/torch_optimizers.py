"""torch.optim's optimizers as the service's: their numbers, and their state in the form of torch.optim's state_dict."""

from __future__ import annotations

from typing import Any

import torch

from tiresias.errors import UsageError


def service_options(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> tuple[str, dict[str, float]]:
    """Return the service's optimizer and options of a parameter group.

    Raises:
        UsageError: An optimizer or an option that the service does not have.
    """
    kind = type(optimizer)
    if kind not in {torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW}:
        raise UsageError(f"the parameter service has no {kind.__name__}; it has SGD, Adam and AdamW of torch.optim")
    refused = [name for name in ("maximize", "amsgrad", "differentiable") if group.get(name)]
    if refused:
        raise UsageError(f"the parameter service has no {kind.__name__} with {', '.join(refused)}")
    if kind is torch.optim.SGD:
        names = ("lr", "momentum", "dampening", "weight_decay", "nesterov")
        return "sgd", {name: float(group[name]) for name in names}
    beta1, beta2 = group["betas"]
    numbers = {name: float(group[name]) for name in ("lr", "eps", "weight_decay")}
    decoupled = kind is torch.optim.AdamW or bool(group.get("decoupled_weight_decay"))
    return "adam", {**numbers, "beta1": float(beta1), "beta2": float(beta2), "decoupled": float(decoupled)}


def state_names(name: str, options: dict[str, float]) -> tuple[str, ...]:
    """Return torch.optim's names of the state arrays, in the service's order."""
    if name == "adam":
        return ("exp_avg", "exp_avg_sq")
    return ("momentum_buffer",) if options["momentum"] else ()


def torch_state(name: str, arrays: dict[str, torch.Tensor], applied: int) -> dict[str, Any]:
    """Return a parameter's entry in torch.optim's state_dict."""
    if applied == 0:
        return {}
    return {"step": torch.tensor(float(applied)), **arrays} if name == "adam" else dict(arrays)
