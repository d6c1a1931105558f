"""Audits: one command, one answer for a given federation."""

from simulations.audit.audit import audit

__all__ = ["audit"]
