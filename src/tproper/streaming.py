"""The old name of what lives in `tproper.data`."""

from .data import (
    Batch,
    CandidateLists,
    CheckpointError,
    IterableSource,
    Learner,
    ParquetSource,
    Source,
    StreamProgress,
    as_source,
    fit_stream,
)

__all__ = [
    "Batch",
    "CandidateLists",
    "CheckpointError",
    "IterableSource",
    "Learner",
    "ParquetSource",
    "Source",
    "StreamProgress",
    "as_source",
    "fit_stream",
]
