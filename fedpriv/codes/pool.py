"""Learning from codes: a classifier of one task, for whoever has a pool of them (ARS eq. 6)."""

from torch import Tensor, nn

from fedpriv.codes.coders import classifier
from fedpriv.codes.decoding import Standardised
from fedpriv.rng import Source
from fedpriv.scenario.sections import Representation
from fedpriv.training import fit


def learn(
    z: Tensor,
    y: Tensor,
    classes: int,
    chosen: Representation,
    *,
    draw: Source,
    epochs: int | None = None,
) -> nn.Module:
    """A classifier trained on codes (N, *code) and labels (N,); `task_epochs` long by default.

    It standardises codes first, as attackers do: what is learned does not depend on their scale.
    Its first weights come from torch's global generator, which the caller seeds; `draw` decides the
    order of the samples.
    """
    model = nn.Sequential(Standardised(z), classifier(tuple(z.shape[1:]), classes)).to(z.device)
    epochs = chosen.task_epochs if epochs is None else epochs
    fit(model, z, y, draw=draw, epochs=epochs, batch=chosen.batch_size, lr=chosen.lr)
    return model
