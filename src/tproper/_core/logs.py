"""What long work says while it runs: through the loggers ``tproper.*`` of the standard library, never by printing.

Without `verbose` a line is a DEBUG record. With it, it is an INFO record that is shown: by the handlers that the
application has set up, or, where there are none, by one of ours that writes the bare line to stderr.
"""

from __future__ import annotations

import logging
import sys

_ROOT = logging.getLogger("tproper")
_ROOT.addHandler(logging.NullHandler())


class _Stderr(logging.StreamHandler):
    """Writes to what `sys.stderr` is when a line is written: notebooks and tests exchange it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("%(message)s"))

    @property
    def stream(self):  # type: ignore[no-untyped-def]
        return sys.stderr


def tell(name: str, line: str, verbose: int) -> None:
    """Log `line` for the module `name`: shown if `verbose`, else for those who listen at DEBUG."""
    logger = logging.getLogger(name)
    if not verbose:
        logger.debug(line)
        return
    if not any(not isinstance(h, logging.NullHandler) for h in _ROOT.handlers) and not logging.getLogger().handlers:
        _ROOT.addHandler(_Stderr())
    if not logger.isEnabledFor(logging.INFO):
        _ROOT.setLevel(logging.INFO)
    logger.info(line)
