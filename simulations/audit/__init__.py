"""Audits: one command, one answer for a given federation."""

from fedpriv.simulations.audit.audit import audit

__all__ = ["audit"]
