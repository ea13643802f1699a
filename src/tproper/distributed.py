"""The old name of `tproper.learn.distributed`."""

from .learn.distributed import GlobalBatches, GlobalBatchLoss, fit, global_batch, process_group, rank, world_size

__all__ = ["GlobalBatchLoss", "GlobalBatches", "fit", "global_batch", "process_group", "rank", "world_size"]
