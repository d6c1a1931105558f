"""The learned prior: it repairs what a search gets wrong, where that pays."""

import pytest
import torch
from torch import nn

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.control import leaves
from fedpriv.attacks.inversion.restoring import LEAST, Repair, Restored
from fedpriv.errors import BadObservation, BadOption
from fedpriv.evidence.claims import Public
from fedpriv.metrics.images import psnr
from fedpriv.rng import generator

from .conftest import CLASSES, observe, smooth_net, weighted

SHAPE = (1, 8, 8)


def pictures_of(kind, count):
    """Pictures of discs, all different; `kind` names the stream."""
    x = leaves(count, SHAPE, generator(0, kind))
    return x, torch.arange(count) % CLASSES


@pytest.fixture(scope="module")
def victims():
    x, y = pictures_of("victims", 12)
    return observe(smooth_net(), x, y), x


def attack(**options):
    own = Public(*pictures_of("own", 200))
    return ATTACKS.build("learned", {"steps": 12, "planted": 200, **options}, own=own)


def test_a_new_repair_changes_nothing():
    x = torch.rand(3, 2, 9, 11, generator=generator(0, "pictures"))
    torch.testing.assert_close(Repair(2, 4)(x), x)


def test_a_rough_guess_is_repaired(victims):
    """After 12 steps a search is far from done; what it lacks can be learned on other pictures."""
    seen, x = victims
    learned = attack()
    rough, found = learned.inversion(seen), learned(seen)
    gains = psnr(found.pixels[:, 0], x) - psnr(rough.pixels[:, 0], x)
    assert found.extra["repaired"] and found.extra["planted"] == 200
    assert gains.mean() > 2 * gains.std() / len(gains) ** 0.5 > 0
    assert found.names == rough.names and found.labels.equal(rough.labels)
    assert learned(seen).x.equal(found.x)  # same seed, same bytes


def test_a_repair_that_does_not_pay_is_not_made(victims):
    """A network that did not train changes nothing, and so gains nothing."""
    seen, _ = victims
    idle = attack(epochs=0)
    found = idle(seen)
    assert not found.extra["repaired"] and found.extra["gain"] == [0.0, 0.0]
    assert found.x.equal(idle.inversion(seen).x)


def test_told_to_stop_it_gives_what_the_search_has(victims):
    seen, _ = victims
    found = attack()(seen, lambda part, loss: False)
    assert found.partial and not found.extra["repaired"] and len(found.x) == len(seen)


def test_what_cannot_be_repaired_is_refused(victims):
    with pytest.raises(BadOption, match=f"at least {LEAST} pictures"):
        attack(planted=3)
    x = torch.rand(2, 1, 4, 4, generator=generator(0, "small"))
    net = weighted(nn.Sequential(nn.Flatten(), nn.Linear(16, CLASSES)))
    small = observe(net, x, torch.zeros(2, dtype=torch.long))
    with pytest.raises(BadObservation, match="8×8 pixels or more"):
        attack()(small)
    assert isinstance(attack(), Restored)
