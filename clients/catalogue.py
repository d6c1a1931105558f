"""PLUGINS: the names people type."""

from collections.abc import Iterable

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
from fedpriv.registry import Entry, Registry
from fedpriv.scenario.sections import Spec

PLUGINS: Registry[PrivacyPlugin] = Registry(
    "plugin",
    "plugins",
    {
        "spn": Entry(SecretPolarization, "a secret second head perturbs gradients", "SPN eq. 4-6"),
        "dp": Entry(
            DifferentialPrivacy, "DP-SGD, sample-level ε accounted over the run", "Abadi 2016"
        ),
        "noise": Entry(Noise, "Gaussian or Laplace noise, no ε claimed", "SPN sect. 4.1"),
        "pruning": Entry(GradientPruning, "share the largest elements only", "SPN sect. 4.1"),
        "augment": Entry(Augmentation, "train on transformed images only", "ATS sect. 4.4"),
        "clip": Entry(Clip, "bound the norm of the update"),
        "guard": Entry(Guard, "look at the model received before training on it"),
        "ars": Entry(AdversarialSharing, "masked adversarial noise on codes", "ARS eq. 12, 15"),
        "ran": Entry(ReconstructiveAdversary, "an encoder against a decoder", "RAN alg. 1"),
        "arl": Entry(AdversarialReconstruction, "task codes that resist inversion", "ARL eq. 9"),
        "dnn": Entry(TaskEncoder, "plain features of the task's network", "RAN sect. 3.1"),
        "noisy": Entry(RandomNoise, "random noise on codes or raw data", "RAN sect. 3.1"),
        "dnn-resized": Entry(ResizedFeatures, "PCA and noise on codes", "RAN sect. 3.1"),
    },
)


def plugin_of(specs: Iterable[Spec]) -> PrivacyPlugin:
    """The plugins of a scenario as one, in the order given; BadOption for an order without sense."""
    specs = tuple(specs)
    plugins = [PLUGINS.build(spec.name, spec.options) for spec in specs]
    check_order([spec.name for spec in specs], plugins)
    return chain(*plugins)
