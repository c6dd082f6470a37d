"""Models that compute in float64 throughout: classes name float32 in norms, softmax and routers, and there mean it."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Torch(types.ModuleType):
    """torch, but for float32, which is float64."""

    def __getattr__(self, name: str) -> Any:
        return torch.float64 if name in ("float32", "float") else getattr(torch, name)


@contextmanager
def float64() -> Iterator[None]:
    """While open, transformers' classes compute in float64 where they name float32."""
    stand_in = _Torch("torch")
    modules = [m for name, m in sys.modules.items() if name.startswith("transformers.") and vars(m).get("torch") is torch]
    plain, default = torch.Tensor.float, torch.get_default_dtype()
    for module in modules:
        vars(module)["torch"] = stand_in
    torch.Tensor.float = lambda self, *_args, **_kwargs: self.double()  # type: ignore[method-assign, assignment]
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(default)
        torch.Tensor.float = plain  # type: ignore[method-assign]
        for module in modules:
            vars(module)["torch"] = torch


class Narrowest(TorchDispatchMode):
    """While open, keep the narrowest floating type that an operation gave."""

    def __init__(self) -> None:
        super().__init__()
        self.dtype = torch.float64
        self.where: set[str] = set()

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for each in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(each, torch.Tensor) and each.is_floating_point() and each.dtype.itemsize < 8:
                self.where.add(str(function))
                if each.dtype.itemsize < self.dtype.itemsize:
                    self.dtype = each.dtype
        return result
