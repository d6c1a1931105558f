"""Audits: whether a federation leaks, and which defence stops it."""

from fedpriv.simulations.audit.audit import audit

__all__ = ["audit"]
