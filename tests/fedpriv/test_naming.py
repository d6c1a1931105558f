"""Arrays without names, and parts of a model, are fitted to the model they are of."""

import pytest
import torch
from torch import nn

from fedpriv.errors import BadObservation
from fedpriv.evidence.naming import fitted_to
from fedpriv.evidence.observation import Observation


def network():
    layers = [nn.Linear(3, 12), *(nn.Linear(12, 12) for _ in range(5)), nn.BatchNorm1d(12)]
    return nn.Sequential(*layers, nn.Linear(12, 2))


def observed(sent, received):
    return Observation(sent=sent, received=received, classes=2, input_shape=(3,), lr=0.1)


def listed(values):
    """As an ArrayRecord of a list, read back from a file that sorts by name."""
    named = {str(i): value for i, value in enumerate(values)}
    return {key: named[key] for key in sorted(named)}


def test_a_list_is_matched_by_order_and_shape():
    net = network()
    own = net.state_dict()
    seen = observed(listed(own.values()), listed(v + 1 for v in own.values()))
    found = fitted_to(seen, net).on(net)
    assert list(found.sent) == list(own)
    assert all(torch.equal(found.sent[key], own[key]) for key in own)
    assert float(found.delta["7.weight"].mean()) == 1


def test_a_list_of_other_shapes_stays_and_is_refused():
    net = network()
    seen = observed(listed([torch.zeros(2)]), listed([torch.zeros(2)]))
    with pytest.raises(BadObservation, match="does not fit"):
        fitted_to(seen, net).on(net)


def test_entries_that_were_never_exchanged_are_the_model_s_own_and_did_not_move():
    net = network()
    head = {k: v for k, v in net.state_dict().items() if k.startswith("7.")}
    seen = observed(head, {k: v - 0.5 for k, v in head.items()})
    found = fitted_to(seen, net).on(net)
    assert not found.delta["0.weight"].any()
    assert torch.equal(found.sent["0.weight"], net.state_dict()["0.weight"])
    assert float(found.delta["7.bias"].mean()) == -0.5
