"""PLUGINS: the names people type, and what each plugin says about itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from fedpriv.clients.order import check_order
from fedpriv.clients.plugin import PrivacyPlugin, chain
from fedpriv.clients.plugins.arl import AdversarialReconstruction
from fedpriv.clients.plugins.ars import AdversarialSharing
from fedpriv.clients.plugins.augmentation import Augmentation
from fedpriv.clients.plugins.clip import Clip
from fedpriv.clients.plugins.differential_privacy import DifferentialPrivacy
from fedpriv.clients.plugins.dnn import TaskEncoder
from fedpriv.clients.plugins.guard import Guard
from fedpriv.clients.plugins.noise import Noise
from fedpriv.clients.plugins.noisy import RandomNoise, ResizedFeatures
from fedpriv.clients.plugins.polarization import SecretPolarization
from fedpriv.clients.plugins.pruning import GradientPruning
from fedpriv.clients.plugins.ran import ReconstructiveAdversary
from fedpriv.errors import BadOption
from fedpriv.registry import Entry, Registry
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Spec

UPDATE, CODES = ("update",), ("codes",)


@dataclass(frozen=True)
class PluginRow(Entry[PrivacyPlugin]):
    """What a plugin says about itself; somebody else's says the same as attributes of its class."""

    protects: tuple[str, ...] = UPDATE + CODES  # what its hooks act on
    neutral: Mapping[str, Any] | None = None  # options that change nothing, bit for bit
    strong: Mapping[str, Any] = field(default_factory=dict)  # options that change a lot
    baseline: tuple[Spec, ...] = ()  # what the neutral setting equals: no plugin, or these
    hides: bool = True  # whether who attacks what is shared has to know of it
    in_steps: bool = False  # acts within single local steps, and keeps nothing from one to the next


# fmt: off
PLUGINS: Registry[PrivacyPlugin] = Registry("plugin", "plugins", {
    "spn": PluginRow(
        SecretPolarization, "a secret second head perturbs gradients", "SPN eq. 4-6", UPDATE,
        neutral={"alpha2": 0.0}, strong={"alpha2": 0.5},
    ),
    "dp": PluginRow(
        DifferentialPrivacy, "DP-SGD, sample-level ε accounted over the run", "Abadi 2016", UPDATE,
        neutral={"noise-multiplier": 0.0, "max-grad-norm": float("inf")},
        strong={"noise-multiplier": 1.0}, in_steps=True,
    ),
    "noise": PluginRow(
        Noise, "Gaussian or Laplace noise, no ε claimed", "SPN sect. 4.1", UPDATE,
        neutral={"scale": 0.0}, strong={"scale": 0.1},
    ),
    "pruning": PluginRow(
        GradientPruning, "share the largest elements only", "SPN sect. 4.1", UPDATE,
        neutral={"fraction": 1.0}, strong={"fraction": 0.1},
    ),
    "augment": PluginRow(
        Augmentation, "train on transformed images only", "ATS sect. 4.4", UPDATE,
        neutral={"policy": "none"}, strong={"policy": "3-1-7+43-18-18"}, in_steps=True,
    ),
    "clip": PluginRow(
        Clip, "bound the norm of the update", "", UPDATE,
        neutral={"norm": float("inf")}, strong={"norm": 1e-3},
    ),
    "guard": PluginRow(
        Guard, "look at the model received before training on it", "", UPDATE,
        neutral={"action": "warn"},
        strong={"action": "clip", "tolerance": 1e-6},  # with which every model looks malicious
        hides=False,  # it refuses models; what honest training shares is as before
    ),
    "ars": PluginRow(
        AdversarialSharing, "masked adversarial noise on codes", "ARS eq. 12, 15", CODES,
        neutral={"epsilon": 0.0}, strong={"epsilon": 2.0},
    ),
    "ran": PluginRow(
        ReconstructiveAdversary, "an encoder against a decoder", "RAN alg. 1", CODES,
        neutral={"lam": 1.0}, strong={"lam": 0.1}, baseline=(Spec("dnn", {"k": 3}),),
    ),
    "arl": PluginRow(
        AdversarialReconstruction, "task codes that resist inversion", "ARL eq. 9", CODES,
        neutral={"lambda1": 0.0, "public": 0.0}, strong={"lambda1": 1.0}, baseline=(Spec("dnn"),),
    ),
    "dnn": PluginRow(
        TaskEncoder, "plain features of the task's network", "RAN sect. 3.1", CODES,
        neutral={"k": -1}, strong={"k": 3},
        hides=False,  # a public encoder like any other, which every attack on codes is given
    ),
    "noisy": PluginRow(
        RandomNoise, "random noise on codes or raw data", "RAN sect. 3.1", CODES,
        neutral={"scale": 0.0}, strong={"scale": 1.0},
    ),
    "dnn-resized": PluginRow(
        ResizedFeatures, "PCA and noise on codes", "RAN sect. 3.1", CODES,
        neutral={"keep": 1.0, "scale": 0.0}, strong={"keep": 0.3, "scale": 1.0},
    ),
}, PluginRow, PrivacyPlugin)
# fmt: on


def row_of(name: str) -> PluginRow:
    """What the plugin called `name` says about itself."""
    return cast(PluginRow, PLUGINS[name])


def hides(name: str) -> bool:
    """Whether an attacker has to know of a plugin; somebody else's is never taken at its word."""
    return row_of(name).hides or not PLUGINS.ours(name)


def in_steps(name: str) -> bool:
    """Whether a plugin acts within single steps alone; somebody else's is not taken at its word."""
    return row_of(name).in_steps and PLUGINS.ours(name)


def plugin_of(specs: Iterable[Spec]) -> PrivacyPlugin:
    """The plugins of a scenario as one, in the order given; BadOption for a senseless order."""
    specs = tuple(specs)
    plugins = [PLUGINS.build(spec.name, spec.options) for spec in specs]
    check_order([spec.name for spec in specs], plugins)
    return chain(*plugins)


def calibrated(spec: Spec, scenario: Scenario) -> dict[str, Any]:
    """A plugin's row in [[plugins]], as strong in one more round as in the scenario's training."""
    plugin = PLUGINS.build(spec.name, spec.options)
    return {"name": spec.name, **plugin.as_in_training(spec.options, scenario)}


def check_plugins(specs: Iterable[Spec], shares: str) -> None:
    """BadOption for a plugin that cannot act on what a strategy shares: update, codes or nothing.

    A client that shares nothing trains all the same, so that plugins of updates have work to do.
    """
    acts_on = "codes" if shares == "codes" else "update"
    for spec in specs:
        protects = row_of(spec.name).protects
        if acts_on not in protects:
            fitting = [name for name in PLUGINS if acts_on in row_of(name).protects]
            raise BadOption(
                f"plugin '{spec.name}' protects {' and '.join(map(plural, protects))}, but the "
                f"strategy shares {plural(shares)}, so that the plugin would do nothing. Leave it "
                f"out, or choose from: {', '.join(fitting)}."
            )


def plural(what: str) -> str:
    return "updates" if what == "update" else what
