"""PrivacyPlugin: seven hooks, each of which changes nothing until it is overridden."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fedpriv.clients.job import Job
from fedpriv.rng import Draws
from fedpriv.scenario import Scenario
from fedpriv.state import State
from fedpriv.wire import Memory


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` asks for: a model's figures on the samples that a client holds out."""

    model: nn.Module
    x: Tensor  # (N, *shape), normalised; N may be 0
    y: Tensor  # (N,)
    round: int
    memory: Memory
    draw: Draws  # secret randomness for this answer alone


@dataclass(frozen=True)
class PrivacyPlugin:
    """A defence: override the hook that your paper changes; every other hook changes nothing.

    The class may also say what it is, in attributes without annotations: `protects = ("update",)`,
    `neutral = {"scale": 0.0}`, `strong = {"scale": 1.0}`; see `PluginRow` in clients/catalogue.py.

    Args:
        The fields of your dataclass. They are the options that people type.

    Example:
        >>> import torch
        >>> from dataclasses import dataclass
        >>> from fedpriv import PrivacyPlugin
        >>> @dataclass(frozen=True)
        ... class Halved(PrivacyPlugin):
        ...     def on_update(self, update, job):
        ...         return {name: value / 2 for name, value in update.items()}
        >>> Halved().on_update({"w": torch.tensor([4.0])}, job=None)
        {'w': tensor([2.])}
    """

    def on_setup(self, job: Job) -> Job:
        """Change model, loss, optimiser, batches or samples before training; never `job.shared`."""
        return job

    def on_batch(self, x: Tensor, y: Tensor, job: Job) -> tuple[Tensor, Tensor]:
        """Change one training batch."""
        return x, y

    def on_update(self, update: State, job: Job) -> State:
        """Change what leaves the client, by parameter name; called when training has ended."""
        return update

    def on_figures(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Change the figures that leave beside an update or alone: counts, losses, accuracies.

        It is called last, for every reply whose figures were computed from the client's samples.
        """
        return dict(figures)

    @property
    def accounted(self) -> bool:
        """Whether an ε of this plugin counts all that leaves the client.

        Nothing else that leaves may then depend on the client's samples.
        """
        return False

    @property
    def evaluates(self) -> bool:
        """Whether `on_evaluation` gives figures, which an ε of this plugin counts."""
        return False

    def on_evaluation(self, asked: Evaluation) -> dict[str, float]:
        """What `evaluate` may say of the samples that the client holds out, under an ε: nothing."""
        return {}

    def on_encoder(self, encoder: nn.Module, job: Job) -> nn.Module:
        """Train or change the encoder that is about to be published."""
        return encoder

    def on_representation(self, z: Tensor, x: Tensor, job: Job) -> Tensor:
        """Change the codes `z` of samples `x` that are about to be shared."""
        return z

    def check(self, model: nn.Module) -> None:
        """Raise BadOption for a model that this plugin cannot protect, before anything starts."""

    def as_in_training(self, options: Mapping[str, Any], scenario: Scenario) -> Mapping[str, Any]:
        """The options with which one more round is protected as the rounds of `scenario` are.

        `options` built this plugin. Override it when strength follows from the number of rounds or
        the batch size, which differ in a round that is trained only to be attacked.
        """
        return options


@dataclass(frozen=True)
class Chain(PrivacyPlugin):
    """The hooks of several plugins, one after another in the order given."""

    plugins: tuple[PrivacyPlugin, ...] = ()

    def check(self, model: nn.Module) -> None:
        for plugin in self.plugins:
            plugin.check(model)

    @property
    def accounted(self) -> bool:
        return any(plugin.accounted for plugin in self.plugins)

    @property
    def evaluates(self) -> bool:
        return any(plugin.evaluates for plugin in self.plugins)

    def on_evaluation(self, asked: Evaluation) -> dict[str, float]:
        for plugin in self.plugins:
            if plugin.evaluates:
                return plugin.on_evaluation(asked)
        return {}

    def on_setup(self, job: Job) -> Job:
        job.accounted = self.accounted
        for plugin in self.plugins:
            job = plugin.on_setup(job)
        return job

    def on_batch(self, x: Tensor, y: Tensor, job: Job) -> tuple[Tensor, Tensor]:
        for plugin in self.plugins:
            x, y = plugin.on_batch(x, y, job)
        return x, y

    def on_update(self, update: State, job: Job) -> State:
        for plugin in self.plugins:
            update = plugin.on_update(update, job)
        return update

    def on_figures(self, figures: Mapping[str, float]) -> dict[str, float]:
        for plugin in self.plugins:
            figures = plugin.on_figures(figures)
        return dict(figures)

    def on_encoder(self, encoder: nn.Module, job: Job) -> nn.Module:
        for plugin in self.plugins:
            encoder = plugin.on_encoder(encoder, job)
        return encoder

    def on_representation(self, z: Tensor, x: Tensor, job: Job) -> Tensor:
        for plugin in self.plugins:
            z = plugin.on_representation(z, x, job)
        return z


def chain(*plugins: PrivacyPlugin) -> PrivacyPlugin:
    return Chain(plugins)
