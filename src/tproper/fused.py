"""The old name of `tproper.losses.kernels.dispatch`."""

from .losses.kernels.dispatch import FusedLoss, fuse, fused_loss, obstacle, plan, triton_installed

__all__ = ["FusedLoss", "fuse", "fused_loss", "obstacle", "plan", "triton_installed"]
