"""What attacks need, by the names in their rows: whether a scenario has it, what it gives."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from fedpriv.attacks.analytic.linear import first_linear
from fedpriv.attacks.catalogue import ATTACKS, AttackRow
from fedpriv.catalogue import DATASETS
from fedpriv.clients.catalogue import PLUGINS
from fedpriv.clients.plugins.arl import AdversarialReconstruction
from fedpriv.clients.plugins.augmentation import Augmentation
from fedpriv.clients.plugins.dnn import TaskEncoder
from fedpriv.clients.plugins.ran import ReconstructiveAdversary
from fedpriv.codes.coders import INPUT
from fedpriv.codes.parties import settings
from fedpriv.errors import BadObservation, BadOption
from fedpriv.evidence.candidates import Candidates
from fedpriv.evidence.truth import NETWORKS
from fedpriv.metrics.faces import Verifier, verifier
from fedpriv.policies.policy import Policy
from fedpriv.runfolder import RunFolder, load_state
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, model_of
from fedpriv.simulations.judging.held import kept_candidates, make_candidates, own_samples
from fedpriv.simulations.judging.knowledge import noise_settings
from fedpriv.simulations.judging.shadows import shadow_federations
from fedpriv.strategies.catalogue import row_of as strategy_row

FACES = "olivetti"


@dataclass(frozen=True)
class Given:
    """What an attacker is given: options that people could type, and objects that they cannot."""

    options: Mapping[str, Any] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Condition:
    """Something that an attack needs.

    `lacks` are the words for a scenario without it, `provides` the names of what `gives` gives.
    """

    lacks: str
    holds: Callable[[Scenario], bool]
    gives: Callable[[Scenario, RunFolder | None], Given] = lambda scenario, folder: Given()
    provides: tuple[str, ...] = ()
    in_evidence: bool = False  # only the evidence shows whether it holds, and the attack looks


def masks(scenario: Scenario) -> bool:
    noise = noise_settings(scenario)
    return noise is not None and noise.epsilon > 0 and noise.share < 1


def true_masks(scenario: Scenario, folder: RunFolder | None) -> Given:
    """The masks that parties wrote to their truth, by party."""
    found: dict[int, Tensor] = {}
    for path in sorted(folder.truth.glob("*.npz")) if folder else ():
        truth = folder.truth_of(path.stem) if folder else None
        if truth is not None and "mask" in truth.secrets:
            found[truth.node] = truth.secrets["mask"]
    return Given(objects={"masks": found})


def uses(scenario: Scenario, *kinds: type) -> bool:
    """Whether one of the scenario's plugins is of these classes."""
    return any(isinstance(PLUGINS.build(s.name, s.options), kinds) for s in scenario.plugins)


def own_networks(scenario: Scenario, folder: RunFolder | None) -> Given:
    """The networks that the encoder was trained with, from the truth of the party that did."""
    path = folder.truth / NETWORKS if folder else None
    found = load_state(path) if path is not None and path.exists() else {}
    return Given(objects={"networks": found})


def own_classifier(scenario: Scenario, folder: RunFolder | None) -> Given:
    """The same, and what the classifier among them was trained for."""
    given = own_networks(scenario, folder)
    return Given(objects={**given.objects, "tasks": settings(scenario).tasks})


def policy_of(scenario: Scenario) -> Policy | None:
    """The augmentation policy that clients use, with its probability and enhancement."""
    for spec in scenario.plugins:
        plugin = PLUGINS.build(spec.name, spec.options)
        if isinstance(plugin, Augmentation):
            return plugin.chosen()
    return None


def told_policy(scenario: Scenario, folder: RunFolder | None) -> Given:
    """All that the policy's words leave out is told beside them."""
    policy = policy_of(scenario)
    if policy is None:
        return Given()
    chances = {"probability": policy.probability, "enhancement": policy.enhancement}
    return Given(options={"policy": str(policy), **chances})


@lru_cache(maxsize=2)
def face_network(root: str, seed: int) -> Verifier:
    """The network that tells faces apart, trained once for all variants."""
    return verifier(DATASETS.build(FACES, {}, root=root or None), seed)


def faces_of(scenario: Scenario) -> Verifier:
    return face_network(scenario.data.root, scenario.seed)


def face_features(scenario: Scenario) -> Callable[[Tensor], Tensor]:
    """Samples as the model takes them -> identity features."""
    dataset, faces = dataset_of(scenario), faces_of(scenario)
    return lambda x: faces(dataset.denormalised(x))


def one_sample(scenario: Scenario) -> bool:
    return scenario.training.local_steps == 1 and scenario.training.batch_size == 1


def begins_linear(scenario: Scenario) -> bool:
    try:
        return bool(first_linear(model_of(scenario)))
    except BadObservation:
        return False


def fewer_than_classes(scenario: Scenario) -> bool:
    training = scenario.training
    return training.local_steps == 1 and training.batch_size < dataset_of(scenario).classes


def shares_updates(scenario: Scenario) -> bool:
    return strategy_row(scenario).reply == "update"


def several_clients(scenario: Scenario) -> bool:
    """Whether updates of at least three clients are seen apart."""
    federation = scenario.federation
    asked = int(federation.clients * federation.fraction)
    return shares_updates(scenario) and asked > 2 and not federation.secagg


def asked_about(scenario: Scenario, folder: RunFolder | None) -> Given:
    """The candidates of a folder; none before there is one."""
    if folder is None:
        nothing = Candidates(x=Tensor(), y=Tensor(), suspect=Tensor())
        return Given(objects={"candidates": nothing})
    return Given(objects={"candidates": make_candidates(folder, scenario, folder.truth_of)})


def shadows_of(scenario: Scenario, folder: RunFolder | None) -> Given:
    """Federations that the attacker trains on its own samples; see judging.shadows."""
    candidates = asked_about(scenario, folder).objects["candidates"]
    place = folder or RunFolder(Path())
    return Given(objects={"shadows": shadow_federations(scenario.text(), place, candidates)})


CONDITIONS = {
    "candidates": Condition(
        "updates whose samples clients keep", shares_updates, asked_about, ("candidates",)
    ),
    "own-samples": Condition(
        "updates",
        shares_updates,
        lambda scenario, folder: Given(objects={"own": own_samples(scenario, folder)}),
        ("own",),
    ),
    "attributes": Condition(
        "data with a private attribute", lambda scenario: bool(dataset_of(scenario).attributes)
    ),
    "shadows": Condition("updates", shares_updates, shadows_of, ("shadows",)),
    "several-clients": Condition("updates of three or more clients, each seen", several_clients),
    "one-sample": Condition("updates of one sample", one_sample, in_evidence=True),
    "first-linear": Condition(
        "a model whose first layer is fully connected", begins_linear, in_evidence=True
    ),
    "few-samples": Condition(
        "updates of one step on fewer samples than classes", fewer_than_classes, in_evidence=True
    ),
    "pictures": Condition("pictures", lambda scenario: dataset_of(scenario).is_image),
    "policy": Condition(
        "an augmentation policy (plugin 'augment')",
        lambda scenario: policy_of(scenario) is not None,
        told_policy,
        ("policy", "probability", "enhancement"),
        in_evidence=True,  # a policy can also be given as an option
    ),
    "masks": Condition("secret masks (plugin 'ars' with share below 1)", masks),
    "true-masks": Condition("secret masks that clients kept", masks, true_masks, ("masks",)),
    "own-decoder": Condition(
        "an encoder trained against a decoder (plugins 'ran', 'arl')",
        lambda scenario: uses(scenario, ReconstructiveAdversary, AdversarialReconstruction),
        own_networks,
        ("networks",),
    ),
    "own-classifier": Condition(
        "an encoder trained for a task (plugins 'dnn', 'ran', 'arl')",
        lambda scenario: uses(
            scenario, TaskEncoder, ReconstructiveAdversary, AdversarialReconstruction
        ),
        own_classifier,
        ("networks", "tasks"),
    ),
    "input-layer": Condition(
        f"the layer '{INPUT}'", lambda scenario: settings(scenario).layer == INPUT
    ),
    "faces": Condition(
        "pictures",
        lambda scenario: dataset_of(scenario).is_image,
        lambda scenario, folder: Given(objects={"network": face_features(scenario)}),
        ("network",),
    ),
}


def row_of(attack: str) -> AttackRow:
    row = ATTACKS[attack]
    assert isinstance(row, AttackRow)
    return row


def conditions_of(row: AttackRow) -> list[Condition]:
    unknown = [name for name in row.needs if name not in CONDITIONS]
    if unknown:
        raise BadOption(
            f"An attack needs '{unknown[0]}', which nobody here knows; choose from: "
            f"{', '.join(CONDITIONS)}."
        )
    return [CONDITIONS[name] for name in row.needs]


def why_not(attack: str, scenario: Scenario, strict: bool = False) -> str | None:
    """Why an attack has nothing to do in a scenario, in words; None when it has.

    `strict` also counts what an attack would only notice on the evidence.
    """
    for condition in conditions_of(row_of(attack)):
        if (strict or not condition.in_evidence) and not condition.holds(scenario):
            return f"it needs {condition.lacks}"
    return None


def given_to(attack: str, scenario: Scenario | None, folder: RunFolder | None) -> Given:
    """Everything that the conditions of an attack give, where they hold.

    A stranger's recording has no scenario, but may have candidates in its folder.
    """
    options: dict[str, Any] = {}
    objects: dict[str, Any] = {}
    if scenario is None and folder is not None and "candidates" in row_of(attack).needs:
        objects["candidates"] = kept_candidates(folder)
    for condition in conditions_of(row_of(attack)):
        if scenario is not None and condition.holds(scenario):
            given = condition.gives(scenario, folder)
            options |= given.options
            objects |= given.objects
    return Given(options, objects)


def informed_of(scenario: Scenario, named: Iterable[str] = ()) -> list[str]:
    """The attacks that know one of the scenario's plugins and see what its strategy shares.

    They are those of the catalogue, and of the ones `named`. Audits and sweeps try them on one
    exposed round, so that attacks on the whole series of rounds are not among them.
    """
    plugins, reply = {spec.name for spec in scenario.plugins}, strategy_row(scenario).reply
    found = {name: row_of(name) for name in (*ATTACKS, *named)}
    return [
        name
        for name, row in found.items()
        if plugins & set(row.knows)
        and row.decides
        and not row.whole
        and row.sees in (reply, "models")
    ]
