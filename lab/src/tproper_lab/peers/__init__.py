"""The field's other losses, each in a few lines from its paper; importing this package registers them as methods."""

from . import candidates, complementary, learned, noise, positive

__all__ = ["candidates", "complementary", "learned", "noise", "positive"]
