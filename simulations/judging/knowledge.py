"""What an attacker of codes knows: the evidence, its own samples and the public settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from torch import Tensor, nn

from fedpriv.attacks.codes.knowledge import Knowledge, NoiseSettings
from fedpriv.clients.catalogue import PLUGINS
from fedpriv.clients.plugins.ars import AdversarialSharing
from fedpriv.codes.parties import (
    coder_of,
    columns_of,
    holding_of,
    is_vertical,
    labels_of,
    outsider_rows,
    settings,
)
from fedpriv.errors import BadOption
from fedpriv.evidence.release import Release
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, loaded, training_samples
from fedpriv.state import State
from fedpriv.training import outputs


def noise_settings(scenario: Scenario) -> NoiseSettings | None:
    """The public settings of `ars`, if the parties use it."""
    for spec in scenario.plugins:
        plugin = PLUGINS.build(spec.name, spec.options)
        if isinstance(plugin, AdversarialSharing):
            return NoiseSettings(
                plugin.epsilon,
                plugin.relative,
                plugin.steps,
                plugin.share,
                plugin.private,
                plugin.targets,
                plugin.weights,
            )
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


def check_curious(scenario: Scenario) -> None:
    """BadOption where nobody could attack: no other party, or encoders that nobody can query."""
    if not is_vertical(scenario):
        curious_party(scenario)
    elif not settings(scenario).publish_encoders:
        raise BadOption(
            "No party publishes its encoder, so nobody can learn to decode its codes; set "
            "representation.publish-encoders = true to see what happens if encoders leak."
        )


def oracle(scenario: Scenario, party: int, weights: State) -> Callable[[Tensor], Tensor]:
    """The published encoder: samples in, codes out."""
    encoder = loaded(coder_of(scenario, party).encoder(settings(scenario).layer), weights)
    return partial(outputs, encoder.eval())


def knowledge_of(scenario: Scenario, releases: Sequence[Release]) -> Iterator[Knowledge]:
    """What attackers know of one round: one attacker of all victims.

    In a vertical federation there is one for each party's columns.
    """
    check_curious(scenario)
    parties = {int(release.node): release for release in releases}
    known = partial(_known, scenario, releases[0].round)
    if is_vertical(scenario):
        rows, (x, _) = outsider_rows(scenario), training_samples(scenario)
        for party, release in parties.items():
            yield known(
                party,
                release.encoder,
                x[rows][:, columns_of(scenario, party)],
                rows,
                {party: release.shared.z},
            )
        return
    party = curious_party(scenario)
    others = {who: release.shared.z for who, release in parties.items() if who != party}
    if not others or party not in parties:
        raise BadOption(f"Party {party} and at least one other must have shared codes to attack.")
    held, own = holding_of(scenario, party), parties[party]
    labels = {
        who: release.shared.y[:, 0]
        for who, release in parties.items()
        if who in others and release.shared.y is not None
    }
    yield known(party, own.encoder, held.x, held.ids, others, own=own.shared.z, labels=labels)


def _known(
    scenario: Scenario,
    server_round: int,
    party: int,
    encoder: State,
    x: Tensor,
    ids: Tensor,
    shared: dict[int, Tensor],
    own: Tensor | None = None,
    labels: Mapping[int, Tensor] | None = None,
) -> Knowledge:
    chosen = settings(scenario)
    return Knowledge(
        query=oracle(scenario, party, encoder),
        x=x,
        shared=shared,
        decoder=decoders(scenario, party),
        own=own,
        labels=own_labels(scenario, ids),
        task=chosen.tasks[0],
        shared_labels=labels or {},
        noise=noise_settings(scenario),
        epochs=chosen.decoder_epochs,
        batch=chosen.batch_size,
        lr=chosen.lr,
        seed=scenario.seed,
        round=server_round,
    )


def decoders(scenario: Scenario, party: int) -> Callable[[int], nn.Module]:
    coder, layer = coder_of(scenario, party), settings(scenario).layer
    return lambda width: coder.decoder(layer, width)


def own_labels(scenario: Scenario, ids: Tensor) -> dict[str, tuple[Tensor, int]]:
    """The attributes of the attacker's own samples."""
    names = ("label", *dataset_of(scenario).attributes)
    found = {name: labels_of(scenario, name) for name in names}
    return {name: (labels[ids], classes) for name, (labels, classes) in found.items()}
