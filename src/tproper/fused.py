"""Where `fuse` used to live; `tp.fuse` is its name."""

from .losses import Plan, fuse, plan_of

__all__ = ["Plan", "fuse", "plan_of"]
