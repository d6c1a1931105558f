import torch
from torch import nn

from fedpriv.clients.protection.rows import MANY, STEP, filled, least_rows, rows_for


class TwoWays(nn.Module):
    """A layer that rounds otherwise where there are few rows."""

    def __init__(self, few):
        super().__init__()
        self.few, self.weight = few, nn.Parameter(torch.ones(64))
        self.scale = nn.Parameter(torch.tensor(1.0))  # one number, without axes

    def extra_repr(self):
        return str(self.few)

    def forward(self, x):
        products = x.flatten(1) * self.weight * self.scale
        return products.sum(1) if len(x) >= self.few else (products / 3).sum(1) * 3


def test_batches_are_filled_up_to_where_rows_are_computed_in_one_way():
    assert least_rows(TwoWays(few=0), (64,)) == STEP
    assert least_rows(TwoWays(few=11), (64,)) == 12
    assert least_rows(TwoWays(few=40), (8, 8)) == 40


def test_a_machine_that_never_settles_is_named(caplog):
    assert least_rows(TwoWays(few=MANY), (64,)) == MANY
    assert not caplog.text  # no batch is smaller, and all larger ones are alike
    assert least_rows(TwoWays(few=MANY + 1), (64,)) == MANY
    assert "batches of 64 and of 80 rows are computed in different ways" in caplog.text


def test_looking_leaves_the_model_and_the_stream_of_numbers_alone():
    model = nn.Linear(5, 2).train()
    before, state = model.weight.clone(), torch.get_rng_state()
    least_rows(model, (5,))
    assert torch.equal(model.weight, before) and model.weight.grad is None and model.training
    assert torch.equal(torch.get_rng_state(), state)


def test_rows_of_zeros_come_last_and_there_are_few_sizes():
    x = torch.ones(5, 3)
    assert filled(x, 12).tolist() == [[1.0] * 3] * 5 + [[0.0] * 3] * 7
    assert len(filled(x[:0], STEP)) == STEP
    assert [rows_for(n, 4) for n in (0, 1, 4, 5, 63, 64, 65, 81)] == [4, 4, 4, 8, 64, 64, 80, 96]
