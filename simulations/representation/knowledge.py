"""What the curious party of a finished run knows; nothing here reads a victim's samples."""

from collections.abc import Callable, Iterator
from functools import partial

from torch import Tensor, nn

from fedpriv.attacks.codes.knowledge import Knowledge, NoiseSettings
from fedpriv.clients.catalogue import PLUGINS
from fedpriv.clients.plugins.ars import AdversarialSharing, mask_of
from fedpriv.codes.parties import (
    coder_of,
    columns_of,
    holding_of,
    is_vertical,
    labels_of,
    outsider_rows,
    settings,
)
from fedpriv.codes.release import Published
from fedpriv.errors import BadOption
from fedpriv.rng import seed_of
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, loaded, training_samples
from fedpriv.state import State
from fedpriv.training import outputs


def noise_settings(scenario: Scenario) -> NoiseSettings | None:
    """The public settings of `ars`, if the parties use it."""
    for spec in scenario.plugins:
        plugin = PLUGINS.build(spec.name, spec.options)
        if isinstance(plugin, AdversarialSharing):
            return NoiseSettings(plugin.epsilon, plugin.relative, plugin.steps, plugin.share)
    return None


def curious_party(scenario: Scenario) -> int:
    """The number of the party that attacks the others of a horizontal federation."""
    count, number = scenario.federation.clients, settings(scenario).curious
    party = count - 1 if number < 0 else number
    if not 0 <= party < count or count < 2:
        raise BadOption(
            f"representation.curious is {number}, but there are {count} parties, and an attacker "
            "needs at least one other."
        )
    return party


def oracle(scenario: Scenario, party: int, weights: State) -> Callable[[Tensor], Tensor]:
    """The published encoder: samples in, codes out."""
    encoder = loaded(coder_of(scenario, party).encoder(settings(scenario).layer), weights)
    return partial(outputs, encoder.eval())


def knowledge_of(scenario: Scenario, published: Published) -> Iterator[Knowledge]:
    """One attacker with all victims; in a vertical federation one for each party's columns."""
    if is_vertical(scenario):
        yield from _outsiders(scenario, published)
        return
    chosen, party = settings(scenario), curious_party(scenario)
    held = holding_of(scenario, party)
    others = {who: shared.z for who, shared in published.parties.items() if who != party}
    if not others or party not in published.parties:
        raise BadOption(f"Party {party} and at least one other must have shared codes to attack.")
    yield Knowledge(
        query=oracle(scenario, party, published.encoder),
        x=held.x,
        shared=others,
        decoder=decoders(scenario, party),
        own=published.parties[party].z,
        labels=own_labels(scenario, held.ids),
        noise=noise_settings(scenario),
        epochs=chosen.decoder_epochs,
        batch=chosen.batch_size,
        lr=chosen.lr,
        seed=scenario.seed,
    )


def _outsiders(scenario: Scenario, published: Published) -> Iterator[Knowledge]:
    chosen, rows = settings(scenario), outsider_rows(scenario)
    x, _ = training_samples(scenario)
    for party, shared in published.parties.items():
        if shared.encoder is None:
            raise BadOption(
                "No party published its encoder, so nobody can learn to decode its codes; set "
                "representation.publish-encoders = true to see what happens if encoders leak."
            )
        yield Knowledge(
            query=oracle(scenario, party, shared.encoder),
            x=x[rows][:, columns_of(scenario, party)],
            shared={party: shared.z},
            decoder=decoders(scenario, party),
            labels=own_labels(scenario, rows),
            noise=noise_settings(scenario),
            epochs=chosen.decoder_epochs,
            batch=chosen.batch_size,
            lr=chosen.lr,
            seed=scenario.seed,
        )


def decoders(scenario: Scenario, party: int) -> Callable[[int], nn.Module]:
    coder, layer = coder_of(scenario, party), settings(scenario).layer
    return lambda width: coder.decoder(layer, width)


def own_labels(scenario: Scenario, ids: Tensor) -> dict[str, tuple[Tensor, int]]:
    """The attributes of the attacker's own samples."""
    names = ("label", *dataset_of(scenario).attributes)
    found = {name: labels_of(scenario, name) for name in names}
    return {name: (labels[ids], classes) for name, (labels, classes) in found.items()}


def true_masks(scenario: Scenario) -> dict[int, Tensor]:
    """Every simulated party's mask, for the analysis of ARS table 6 and to score guesses of masks.

    A simulation hands the parties their secrets, so that it can be repeated; a real server cannot.
    """
    noise = noise_settings(scenario)
    if noise is None or noise.share == 1:
        return {}
    return {
        party: mask_of(
            seed_of(scenario.seed, "secret", party) >> 2,
            coder_of(scenario, party).code(settings(scenario).layer),
            noise.share,
        )
        for party in range(scenario.federation.clients)
    }
