import pytest
import torch
from torch import nn
from torch.testing import assert_close

from fedpriv.catalogue import MODELS
from fedpriv.errors import BadOption
from fedpriv.models.heads import last_linear, split


class Foreign(nn.Module):
    """A third party's classifier: the head is not the last thing that happens."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 5)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x))).log_softmax(dim=1)


@pytest.mark.parametrize("name", MODELS)
def test_the_two_parts_make_the_model(name):
    small = {"width": 4} if name in ("convnet", "resnet20") else {}
    model = MODELS.build(name, small, channels=1, size=16, classes=5).eval()
    backbone, head = split(model)
    x = torch.randn(2, 1, 16, 16)
    assert_close(head(backbone(x)), model(x))
    assert head.out_features == 5


def test_a_foreign_model_is_split_without_touching_it():
    model = Foreign()
    keys = list(model.state_dict())
    backbone, head = split(model)
    x = torch.randn(4, 6)
    features = backbone(x)
    assert_close(features, torch.tanh(model.body(x)))
    assert_close(head(features).log_softmax(1), model(x))
    assert list(model.state_dict()) == keys and not model.head._forward_pre_hooks


def test_gradients_reach_the_models_own_parameters():
    model = Foreign()
    backbone, _ = split(model)
    backbone(torch.ones(2, 6)).sum().backward()
    assert model.body.weight.grad.abs().sum() > 0 and model.head.weight.grad is None


def test_the_name_is_the_one_of_the_state():
    name, head = last_linear(Foreign())
    assert name == "head" and head.out_features == 3


def test_a_model_without_a_head_is_named():
    with pytest.raises(BadOption, match="Conv2d has no linear layer"):
        split(nn.Conv2d(1, 1, 1))
