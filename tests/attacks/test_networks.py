"""Networks that people use: an attack runs on each of them, and most have the fast engine."""

import pytest
import torch
import torchvision.models as zoo

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.engine.gradients import gradient_of
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.rng import generator
from fedpriv.state import state_of


def small_vit():
    return zoo.VisionTransformer(
        image_size=32,
        patch_size=8,
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        mlp_dim=32,
        num_classes=10,
    )


NETS = {  # name -> builder, whether every layer has a rule
    "resnet18": (zoo.resnet18, True),
    "mobilenet_v2": (zoo.mobilenet_v2, True),
    "mobilenet_v3": (zoo.mobilenet_v3_small, True),
    "efficientnet_b0": (zoo.efficientnet_b0, True),
    "shufflenet": (zoo.shufflenet_v2_x0_5, False),
    "squeezenet": (zoo.squeezenet1_1, False),
    "vit": (lambda num_classes: small_vit(), False),
}


@pytest.mark.parametrize("name", NETS)
def test_an_attack_runs(name):
    build, fast = NETS[name]
    torch.manual_seed(0)
    net = build(num_classes=10).eval()
    x, y = torch.rand(1, 3, 32, 32, generator=generator(0, "x")), torch.tensor([3])
    seen = Observation.of_gradient(
        state_of(net),
        gradient_of(net, x, y),
        classes=10,
        input_shape=(3, 32, 32),
        mode="eval",
        model=net,
    )
    victims = stack([seen])
    assert (victims.engine is not None) == fast
    for row in ("quick", "dlg"):
        found = ATTACKS.build(row, {"steps": 2})(victims)
        assert found.x.shape == (1, 1, 3, 32, 32) and torch.isfinite(found.x).all()
