"""The job: one constructor for updates and codes, and a typed place for what a plugin keeps."""

from dataclasses import dataclass, replace

import pytest
import torch
from messages import ask, context_of

from fedpriv.clients.catalogue import plugin_of
from fedpriv.clients.job import make_job
from fedpriv.codes.parties import holding_of
from fedpriv.errors import BadInput
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state, model_of, shares_of
from fedpriv.scenario.sections import Spec
from fedpriv.state import state_of


@dataclass
class Seen:
    count: int = 0


@pytest.fixture
def codes(tiny):
    return from_tables(
        merged(
            tiny.plain(),
            {
                "federation": {"strategy": "representation"},
                "representation": {"options": {"hidden": [16], "code": 6}, "encoder-epochs": 1},
            },
        )
    )


def test_a_plugin_finds_what_it_kept_by_its_class(tiny):
    job = make_job(tiny, first_state(tiny), 1, context_of(tiny))
    assert job.kept(Seen) is None
    job.keep(Seen()).count += 1
    other = replace(job, loss=torch.nn.functional.nll_loss)  # as a plugin may do in on_setup
    assert other.kept(Seen) == Seen(1)
    other.keep(Seen(5))
    assert job.kept(Seen) == Seen(5)
    assert make_job(tiny, first_state(tiny), 1, context_of(tiny)).kept(Seen) is None


def test_a_job_has_the_model_it_was_sent_or_an_encoder_of_its_own(tiny, codes):
    sent = make_job(tiny, first_state(tiny), 1, context_of(tiny))
    assert state_of(sent.shared).keys() == state_of(model_of(tiny)).keys()
    assert sent.model is sent.shared and sent.x is sent.original
    with pytest.raises(BadInput, match="shares an update"):
        _ = sent.sharing
    coded = make_job(codes, None, 1, context_of(codes, 2))
    assert coded.shared(coded.x[:3]).shape == (3, 6)
    assert torch.equal(coded.indices, holding_of(codes, 2).ids)
    assert coded.sharing.held.x_test.shape[1:] == coded.x.shape[1:]


def test_two_kinds_of_noise_on_codes_have_a_scale_each(codes):
    job = make_job(codes, None, 1, context_of(codes))
    z = torch.zeros(4000, 6)
    small, large = Spec("dnn-resized", {"scale": 1e-3}), Spec("noisy", {"scale": 5.0})
    noise = plugin_of([small, large]).on_representation(z, job.x, job)
    assert abs(noise.abs().mean().item() - 5) < 0.5  # the mean of |Laplace| is its scale


def test_a_client_without_samples_says_so(tiny, monkeypatch):
    shares = [share[:0] for share in shares_of(tiny)]
    monkeypatch.setattr("fedpriv.clients.job.shares_of", lambda scenario, count: shares)
    assert "holds no samples" in ask(tiny).error.reason
