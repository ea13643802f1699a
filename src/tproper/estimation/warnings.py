"""Warnings of the estimation room."""

from __future__ import annotations


class IdentifiabilityWarning(UserWarning):
    """The data cannot tell what is asked of them: very different T explain the labels equally well."""


class DependenceWarning(IdentifiabilityWarning):
    """Answers agree more often than independent ones would, given the class: some are copied, or items differ."""


class FamilyWarning(UserWarning):
    """Labels do not look like the family that they were taken for."""
