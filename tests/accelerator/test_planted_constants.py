"""A constant that somebody forgets to put on the device is found, wherever it is."""

import pytest
import torch
from pretend import Mixed
from there import claims_on, network, round_of
from worlds import UPDATES

from fedpriv.attacks.inversion import search
from fedpriv.clients.plugins import noise
from fedpriv.device import moved
from fedpriv.engine import trusted
from fedpriv.engine.explicit import CrossEntropy
from fedpriv.metrics.images import mse
from fedpriv.metrics.metric import Metric


def test_in_the_engine(monkeypatch, caplog, there):
    plain = CrossEntropy.seed

    def planted(self, z, t, batch):
        return plain(self, z, t, batch) + torch.zeros(z.shape[1])

    monkeypatch.setattr(CrossEntropy, "seed", planted)
    monkeypatch.setattr(trusted, "_checked", {})  # what it found out before
    model = moved(network(), there)
    # The engine looks at itself first. It says why it leaves the work to the general path, which
    # the tests of the engine do not accept.
    assert trusted.explicit_engine(model, dict(model.named_parameters()), {}, (1, 8, 8)) is None
    assert "found pretend and cpu" in caplog.text


def test_in_an_attack(monkeypatch, run, there):
    folder = run(UPDATES | {"attacks": [{"name": "quick"}]})  # no claims yet, which are not redone
    plain = search.box
    monkeypatch.setattr(search, "box", lambda facts, device: plain(facts))
    with pytest.raises(AssertionError, match="Mixed"):
        claims_on(there, "quick", folder)


def test_in_a_metric(there):
    metric = Metric(lambda guess, truth: mse(guess, truth) + torch.zeros(len(guess)), "low")
    with pytest.raises(Mixed, match=r"\(6,\)"):
        metric(torch.rand(6, 1, 8, 8, device=there), torch.rand(6, 1, 8, 8, device=there))


def test_in_a_plugin(monkeypatch, run, there):
    def planted(like, draw):
        return torch.zeros(like.shape) + draw.normal(like.shape, like.dtype)

    monkeypatch.setitem(noise.KINDS, "gaussian", planted)
    with pytest.raises(Exception, match="Mixed"):
        round_of("noise", {"scale": 0.1}, run, str(there))


def test_a_generator_of_the_cpu_draws_nothing_there(there):
    with pytest.raises(Mixed, match="generator"):
        torch.rand(3, generator=torch.Generator(), device=there)
