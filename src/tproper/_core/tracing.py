"""What PyTorch is doing at this moment: tracing, transforming or capturing, where values cannot be looked at."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


def transformation() -> str:
    """What is being done to a call, in words, where a loss made together with its gradient would be lost; or ""."""
    if torch.compiler.is_compiling():
        return "torch.compile is tracing, and fuses the plain formulation itself"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a functorch transform is active"
    return "forward-mode differentiation is active" if forward_ad._current_level >= 0 else ""


def at_hand(values: Tensor) -> bool:
    """Whether values may be looked at now, and at no cost: a GPU would have to be waited for."""
    return values.device.type == "cpu" and not values.is_meta and readable(values)


def readable(labels: Tensor) -> bool:
    """Whether label values may be looked at now.

    Not under torch.compile, functorch transforms or CUDA graph capture, where reading a value is
    impossible; there the caller has checked a batch beforehand or accepts an indexing error.
    """
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return not (labels.is_cuda and torch.cuda.is_current_stream_capturing())
