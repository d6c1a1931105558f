"""Adversarial sharing: noise on codes that misleads decoders (ARS eq. 9-10, 12, 14-15; alg. 1)."""

from dataclasses import dataclass

from torch import Tensor, nn

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.protection.secret import Secrets
from fedpriv.codes.decoding import fit_decoder, frozen
from fedpriv.codes.parties import labels_of
from fedpriv.codes.perturbation import budget, noise_on, random_mask
from fedpriv.codes.pool import learn
from fedpriv.errors import BadOption


def mask_of(secret: Secrets, code: tuple[int, ...], share: float) -> Tensor:
    """A party's mask: the same in every round of a run, from its own secret (ARS sect. 4.3)."""
    return random_mask(code, secret.of_run("ars", "mask"), share)


@dataclass(frozen=True)
class Tools:
    """What a party makes for itself in a round; none of it leaves the party."""

    decoder: nn.Module  # the substitute for an attacker's
    epsilon: Tensor  # the largest change of each coordinate
    mask: Tensor | None  # 1 where codes are perturbed; None perturbs them everywhere
    attributes: tuple[tuple[nn.Module, int], ...]  # F_k and r_k: a classifier, its target class


@dataclass(frozen=True)
class AdversarialSharing(PrivacyPlugin):
    """|ẑ − z| ≤ ε per coordinate against the party's own substitute decoder; ε = 0 is no defence.

    With `relative`, ε is in standard deviations of each coordinate, since codes have no common
    unit. Only a secret `share` of the coordinates is perturbed; 1 is eq. 9, without a mask. Codes
    are also pulled towards the class in `targets` (0 by default) of each `private` attribute.
    `weights` are λ0 for the decoder and λ1, λ2, … for the attributes.

    Args:
        epsilon: Largest change of a coordinate of a code. Larger hides more; 0 is no defence.
        relative: Whether `epsilon` counts in standard deviations of each coordinate.
        steps: Steps of the search for the noise.
        share: Part of the coordinates that is perturbed, chosen by a secret mask; 1 perturbs all,
            without a mask.
        private: Attributes of the data that codes should not tell.
        targets: The class that codes pretend for each private attribute. Default: class 0.
        weights: Weight of the decoder, then one for each private attribute, each between 0 and 1.
            Default: half for the decoder, the other half for all attributes together.
    """

    epsilon: float = 1.0
    relative: bool = True
    steps: int = 10
    share: float = 0.5
    private: tuple[str, ...] = ()
    targets: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < float("inf"):
            raise BadOption(f"ars: epsilon must be at least 0 and finite, got {self.epsilon}.")
        if self.steps < 1:
            raise BadOption(f"ars: steps must be at least 1, got {self.steps}.")
        if not 0 < self.share <= 1:
            raise BadOption(f"ars: share must be in (0, 1], got {self.share}; 1 is no mask.")
        if self.targets and len(self.targets) != len(self.private):
            raise BadOption(
                f"ars: {len(self.private)} private attributes need as many targets, "
                f"got {len(self.targets)}."
            )
        if self.weights and len(self.weights) != len(self.private) + 1:
            raise BadOption(
                f"ars: weights are λ0 for pixels and one for each of {len(self.private)} private "
                f"attributes, got {len(self.weights)}."
            )
        if not all(0 <= weight <= 1 for weight in self.weights):
            raise BadOption(f"ars: weights must be between 0 and 1, got {self.weights}.")

    def on_representation(self, z: Tensor, x: Tensor, job: Job) -> Tensor:
        if self.epsilon == 0:
            return z
        tools = job.kept(Tools) or job.keep(self.made(z, x, job))
        return z + noise_on(
            z,
            x,
            tools.decoder,
            tools.attributes,
            self.weights,
            tools.epsilon,
            self.steps,
            tools.mask,
        )

    def made(self, z: Tensor, x: Tensor, job: Job) -> Tools:
        """The substitute decoder (eq. 8) and attribute classifiers (eq. 13) of this party."""
        sharing, chosen = job.sharing, job.sharing.chosen
        decoder = fit_decoder(
            sharing.decoder(),
            z,
            x,
            draw=job.draws("substitute"),
            epochs=chosen.decoder_epochs,
            batch=chosen.batch_size,
            lr=chosen.lr,
        )
        mask = None
        if self.share < 1:
            mask = mask_of(job.secret, sharing.code, self.share).to(job.device)
        if mask is not None:
            job.secrets["mask"] = (
                mask.cpu()
            )  # goes to the party's own truth folder, never into a message
        epsilon = budget(z, self.epsilon, self.relative)
        return Tools(decoder, epsilon, mask, self.attribute_networks(z, job))

    def attribute_networks(self, z: Tensor, job: Job) -> tuple[tuple[nn.Module, int], ...]:
        """A classifier of each private attribute, and the class that noise pulls codes towards."""
        chosen, found = job.sharing.chosen, []
        for number, name in enumerate(self.private):
            labels, classes = labels_of(job.scenario, name)
            target = self.targets[number] if self.targets else 0
            if not 0 <= target < classes:
                raise BadOption(f"ars: '{name}' has classes 0 to {classes - 1}, got {target}.")
            draw, epochs = job.draws(f"attribute-{name}"), chosen.decoder_epochs
            network = learn(z, labels[job.indices], classes, chosen, draw=draw, epochs=epochs)
            found.append((frozen(network), target))
        return tuple(found)
