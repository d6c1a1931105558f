"""A network that tells persons apart, trained on the spot (ARL table 1).

It gives face similarity and identity features. The paper uses a pretrained face network. None can
be had offline: a small one, trained on a set of faces with identities, takes its place and says
less; compare its numbers only with each other.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from fedpriv.codes.coders import conv_coder
from fedpriv.data.dataset import Dataset
from fedpriv.errors import BadOption
from fedpriv.rng import generator, seed_of
from fedpriv.scenario.built import seed_everything
from fedpriv.training import evaluate, fit, outputs

SIDE, FEATURES = 32, 64


def grey(pictures: Tensor, side: int = SIDE) -> Tensor:
    """Pictures (N, C, H, W) in [0, 1] as (N, 1, side, side), each with mean 0 and deviation 1."""
    x = interpolate(
        pictures.mean(dim=1, keepdim=True), size=(side, side), mode="bilinear", antialias=True
    )
    mean, deviation = x.mean(dim=(1, 2, 3), keepdim=True), x.std(dim=(1, 2, 3), keepdim=True)
    return (x - mean) / deviation.clamp_min(1e-3)


@dataclass(frozen=True)
class Verifier:
    """Features of faces by which persons differ; `accuracy` is measured on held-out pictures."""

    network: nn.Module
    accuracy: float

    def __call__(self, pictures: Tensor) -> Tensor:
        """Features (N, 64) of pictures (N, C, H, W) in [0, 1]."""
        return outputs(self.network, grey(pictures))


def verifier(faces: Dataset, seed: int = 0, epochs: int = 40) -> Verifier:
    """A network trained to name the persons of `faces`, without its last layer."""
    if not faces.is_image:
        raise BadOption(f"'{faces.name}' holds no pictures of faces.")
    seed_everything(seed_of(seed, "verification"))
    backbone = conv_coder((1, SIDE, SIDE), widths=(16, 32, 64), code=FEATURES).encoder()
    head = nn.Linear(FEATURES, faces.classes)
    model = nn.Sequential(backbone, head)
    raw = [part.float() / 255 for part in (faces.x_train, faces.x_test)]
    x, x_test = (grey(part) for part in raw)
    both = torch.cat([x, x.flip(-1)])
    labels = faces.y_train.repeat(2)
    draw = generator(seed, "verification", "batches")
    fit(model, both, labels, draw=draw, epochs=epochs, batch=32, lr=1e-3)
    _, accuracy = evaluate(model, x_test, faces.y_test)
    return Verifier(backbone.eval().requires_grad_(False), accuracy)


def faces_like(faces: Dataset, shape: tuple[int, ...]) -> Tensor:
    """All pictures of `faces` in [0, 1], with the channels and size of another set's samples."""
    pictures = torch.cat([faces.x_train, faces.x_test]).float() / 255
    pictures = interpolate(pictures, size=shape[1:], mode="bilinear", antialias=True)
    return pictures.mean(dim=1, keepdim=True).expand(-1, shape[0], -1, -1)
