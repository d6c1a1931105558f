"""Clients that answer with what no server should use."""

from dataclasses import dataclass

import torch

from fedpriv.clients.plugin import PrivacyPlugin


@dataclass(frozen=True)
class NotANumber(PrivacyPlugin):
    def on_update(self, update, job):
        return {name: value * torch.nan for name, value in update.items()}


@dataclass(frozen=True)
class WrongShape(PrivacyPlugin):
    """One axis too many: adding it to the model sent broadcasts."""

    def on_update(self, update, job):
        return {name: value[None, :1] for name, value in update.items()}


@dataclass(frozen=True)
class Garbage(PrivacyPlugin):
    """Hundreds of times the bytes it should have."""

    def on_update(self, update, job):
        return {name: value.expand(400, *value.shape) for name, value in update.items()}
