"""Warnings of the estimation room."""

from __future__ import annotations


class IdentifiabilityWarning(UserWarning):
    """The data cannot tell what is asked of them: very different T explain the labels equally well.

    Examples
    --------
    >>> import warnings, tproper as tp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     found = tp.estimate_annotators([[0, 1], [1, 0], [0, 0], [1, 1]] * 10)  # two that agree by chance
    >>> tp.IdentifiabilityWarning in [w.category for w in caught]
    True
    """


class DependenceWarning(IdentifiabilityWarning):
    """Answers agree more often than independent ones would, given the class: some are copied, or items differ.

    Examples
    --------
    >>> import warnings, numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> z = rng.integers(2, size=400)
    >>> answers = np.where(rng.random((400, 5)) < 0.25, 1 - z[:, None], z[:, None])
    >>> answers[:, 4] = answers[:, 3]  # a copy
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     found = tp.estimate_annotators(answers)
    >>> tp.DependenceWarning in [w.category for w in caught]
    True
    """


class FamilyWarning(UserWarning):
    """Labels do not look like the family that they were taken for.

    Examples
    --------
    >>> import warnings, numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> sets = np.ones((400, 4), dtype=bool)  # all four classes, or the first two: never one or three
    >>> sets[rng.random(400) < 0.5, 2:] = False
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     found = tp.estimate_transition(sets)
    >>> tp.FamilyWarning in [w.category for w in caught]
    True
    """
