import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.testing import assert_close

from fedpriv.catalogue import DATASETS, MODELS
from fedpriv.errors import BadOption, WorkFailed
from fedpriv.rng import generator
from fedpriv.state import digest
from fedpriv.training import batches, evaluate, fit, outputs


@pytest.fixture
def data():
    return DATASETS.build("synthetic", {"train": 256, "test": 64, "noise": 0.3}, root=None)


def trained(data, seed=0, **options):
    torch.manual_seed(1)
    model = MODELS.build("lenet", channels=1, size=16, classes=4)
    draw = generator(seed, "fit")
    history = fit(
        model, data.x_train, data.y_train, draw=draw, normalise=data.normalised, **options
    )
    return model, history


def test_a_model_learns_what_can_be_learned(data):
    model, history = trained(data, epochs=6, batch=16, lr=3e-3)
    loss, accuracy = evaluate(model, data.x_test, data.y_test, data.normalised)
    assert len(history) == 6 and history[-1] < history[0] / 2
    assert accuracy > 0.9 and loss < 0.5


def test_the_generator_decides_the_weights(data):
    first, again, other = (trained(data, seed)[0] for seed in (0, 0, 1))
    assert digest(first.state_dict()) == digest(again.state_dict())
    assert digest(first.state_dict()) != digest(other.state_dict())


def test_batches_cut_the_evaluation_but_do_not_change_it(data):
    model, _ = trained(data)
    whole = evaluate(model, data.x_test, data.y_test, data.normalised, batch=64)
    parts = evaluate(model, data.x_test, data.y_test, data.normalised, batch=7)
    assert_close(whole, parts)
    with torch.no_grad():
        logits = model(data.normalised(data.x_test))
    assert_close(whole[0], float(cross_entropy(logits, data.y_test)))
    assert whole[1] == float((logits.argmax(1) == data.y_test).float().mean())


def test_evaluation_is_in_eval_mode_and_leaves_no_trace():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5)).train()
    before = digest(model.state_dict())
    x = torch.randn(8, 3, generator=generator(0, "x"))
    assert_close(outputs(model, x), x / (1 + 1e-5) ** 0.5)
    assert model.training and digest(model.state_dict()) == before


def test_any_target_and_loss_will_do(data):
    torch.manual_seed(0)
    x = torch.rand(64, 5)
    copier = nn.Linear(5, 5)
    history = fit(copier, x, x, draw=generator(0), epochs=30, batch=8, lr=0.05, loss=mse_loss)
    assert history[-1] < history[0] / 20


def test_every_sample_comes_once_an_epoch():
    parts = list(batches(10, 4, generator(0)))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert sorted(torch.cat(parts).tolist()) == list(range(10))


def test_what_cannot_work_is_named(data):
    model = MODELS.build("lenet", channels=1, size=16, classes=4)
    with pytest.raises(BadOption, match="empty"):
        evaluate(model, data.x_test[:0], data.y_test[:0])
    with pytest.raises(BadOption, match="got 256, 3"):
        fit(model, data.x_train, data.y_train[:3], draw=generator(0))
    with pytest.raises(BadOption, match="got 0"):
        fit(model, data.x_train, data.y_train, draw=generator(0), batch=0)
    with pytest.raises(WorkFailed, match="Lower the learning rate"):
        trained(data, lr=1e30, optimizer=torch.optim.SGD, epochs=3)
