"""Clients that answer with what no server should use."""

from dataclasses import dataclass

import torch

from clients.plugin import PrivacyPlugin


@dataclass(frozen=True)
class NotANumber(PrivacyPlugin):
    def on_update(self, update, job):
        return {name: value * torch.nan for name, value in update.items()}


@dataclass(frozen=True)
class WrongShape(PrivacyPlugin):
    def on_update(self, update, job):
        job.start = {name: value.reshape(-1) for name, value in job.start.items()}
        return {name: value.flatten()[:-1] for name, value in update.items()}


@dataclass(frozen=True)
class Garbage(PrivacyPlugin):
    """Hundreds of times the bytes it should have."""

    def on_update(self, update, job):
        return {name: torch.zeros(40_000_000) for name in update}
