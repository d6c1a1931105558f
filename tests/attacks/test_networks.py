"""Networks that people use: an attack runs on each of them, and the engine is exact there."""

import pytest
import torch
import torchvision.models as zoo
from torch import nn
from torch.nn.functional import hardsigmoid, scaled_dot_product_attention

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.engine.explicit import Explicit
from fedpriv.engine.gradients import as_trained, dense, gradient_by_autograd, gradient_of
from fedpriv.engine.program import program
from fedpriv.errors import BadObservation
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.rng import generator
from fedpriv.state import state_of


def small_vit(num_classes):
    return zoo.VisionTransformer(
        image_size=32,
        patch_size=8,
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        mlp_dim=32,
        num_classes=num_classes,
    )


class Tokens(nn.Module):
    """Patches of an image through torch's own transformer layers, and a learned scale."""

    def __init__(self, num_classes, first=False):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.place = nn.Parameter(torch.randn(1, 16, 16) / 50)
        layer = nn.TransformerEncoderLayer(
            16, 2, 32, batch_first=True, norm_first=first, activation="gelu" if first else "relu"
        )
        norm = nn.LayerNorm(16) if first else None
        self.layers = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
        self.scale = nn.Parameter(torch.rand(16))
        self.head = nn.Linear(16, num_classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.place
        return self.head((self.layers(x) * self.scale).mean(1))


class OwnAttention(nn.Module):
    """Attention in the model's own code, as many repositories write it."""

    def __init__(self, num_classes):
        super().__init__()
        self.patches, self.all = nn.Conv2d(3, 16, 8, 8), nn.Linear(16, 48)
        self.bend, self.head = nn.Softplus(), nn.Linear(16, num_classes)

    def forward(self, x):
        x = self.patches(x)
        n, c, h, w = x.shape
        x = x.reshape(n, c, h * w).permute(0, 2, 1)
        q, k, v = self.all(x).reshape(n, h * w, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c)
        return self.head(self.bend(x + 2 * y).mean(dim=1))


NETS = {
    "resnet18": zoo.resnet18,
    "mobilenet_v2": zoo.mobilenet_v2,
    "mobilenet_v3": zoo.mobilenet_v3_small,
    "efficientnet_b0": zoo.efficientnet_b0,
    "shufflenet": zoo.shufflenet_v2_x0_5,
    "squeezenet": zoo.squeezenet1_1,
    "vit": small_vit,
    "tokens": Tokens,
    "tokens-norm-first": lambda num_classes: Tokens(num_classes, first=True),
    "own-attention": OwnAttention,
}


def observed(net):
    x, y = torch.rand(1, 3, 32, 32, generator=generator(0, "x")), torch.tensor([3])
    return Observation.of_gradient(
        state_of(net),
        gradient_of(net, x, y),
        classes=10,
        input_shape=(3, 32, 32),
        mode="eval",
        model=net,
    )


@pytest.mark.parametrize("name", NETS)
def test_an_attack_runs_on_the_fast_engine(name):
    torch.manual_seed(0)
    victims = stack([observed(NETS[name](num_classes=10).eval())])
    assert victims.engine is not None
    for row in ("quick", "dlg"):
        found = ATTACKS.build(row, {"steps": 2})(victims)
        assert found.x.shape == (1, 1, 3, 32, 32) and torch.isfinite(found.x).all()


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("name", NETS)
def test_the_engine_is_autograd_in_double_precision(name, mode):
    """Both orders, for two victims; a batch of 6, for the statistics of a BatchNorm."""
    torch.manual_seed(0)
    net = as_trained(NETS[name](num_classes=10), mode).double()
    weights = dict(net.named_parameters())
    buffers = {key: value for key, value in net.named_buffers() if value.is_floating_point()}
    stream = generator(1, "x")
    x = torch.randn(2, 6, 3, 32, 32, generator=stream).double().requires_grad_()
    t = torch.rand(2, 6, 10, generator=stream).double().requires_grad_()
    engine = Explicit(program(net, weights, buffers), tuple(weights))
    ours = {key: dense(value) for key, value in engine.gradients_at(x, t).items()}
    rows = [gradient_by_autograd(net, weights, buffers, x[v], t[v]) for v in range(2)]
    theirs = {key: torch.stack([row[key] for row in rows]) for key in weights}
    along = {key: torch.randn(v.shape, generator=stream).double() for key, v in theirs.items()}
    slopes = [
        torch.autograd.grad(sum((all_[key] * along[key]).sum() for key in along), (x, t))
        for all_ in (ours, theirs)
    ]
    flat = [torch.cat([all_[key].flatten() for key in weights]) for all_ in (ours, theirs)]
    for a, b in [flat, *zip(*slopes, strict=True)]:
        assert float((a - b).detach().norm()) <= 1e-9 * float(b.detach().norm())


def test_a_layer_without_a_second_derivative_is_named():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3072, 8), nn.Linear(8, 10)

        def forward(self, x):  # `len` keeps it off the fast engine, which knows this function
            return self.b(hardsigmoid(self.a(x.view(len(x), -1))))

    victims = stack([observed(Gated().eval())])
    assert victims.engine is None
    with pytest.raises(BadObservation, match="Gated cannot be differentiated twice.*hardsigmoid"):
        ATTACKS.build("quick", {"steps": 2})(victims)
