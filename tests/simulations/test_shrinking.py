"""Guesses are drawn towards the public mean as far as planted clients say, and no victim does."""

import torch

from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.truth import Truth
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.audit.shrinking import factor, shrink

SHAPE = (1, 6, 6)


def client(node, noise, seed):
    """A guess that is truth plus noise, and the truth."""
    stream = torch.Generator().manual_seed(seed)
    x = torch.randn(1, *SHAPE, generator=stream)
    guess = x + noise * torch.randn(1, *SHAPE, generator=stream)
    claim = Reconstruction(
        x=guess[None], labels=torch.zeros(1, 0), loss=torch.zeros(1), names=(f"1-{node}",)
    )
    about = {"indices": torch.tensor([node]), "round": 1, "node": node, "clean": 1.0, "added": 0.0}
    return claim, Truth(x=x, trained=x, y=torch.zeros(1), **about)


def test_the_factor_is_that_of_least_squares():
    mean = torch.zeros(SHAPE)
    exact, noisy = ([client(i, noise, i) for i in range(40)] for noise in (0.0, 2.0))
    assert factor(exact, mean) == 1.0
    assert abs(factor(noisy, mean) - 1 / (1 + 4)) < 0.03  # var x / (var x + var noise)
    turned = [(claim, Truth(**{**vars(truth), "x": -truth.x})) for claim, truth in exact]
    assert factor(turned, mean) == 0.0  # worse than blind: nothing of it is kept
    assert factor([], mean) is None


def test_only_planted_clients_say_how_far(tmp_path):
    folder, mean = RunFolder(tmp_path), torch.zeros(SHAPE)
    for node, noise in ((0, 3.0), (1, 0.0)):  # the planted client is noise, the victim is exact
        claim, truth = client(node, noise, node)
        claim.save(folder.claim_file("dlg", claim.names[0]))
        truth.save(folder.truth)
    label = shrink(folder, "dlg", {"1-0"}, mean)
    (found,) = folder.claims(label)
    assert label == "dlg-shrunk" and found.names == ("1-1",)
    share = found.extra["shrunk-to"]
    assert 0 <= share < 0.5
    torch.testing.assert_close(found.x, share * client(1, 0.0, 1)[0].x, rtol=1e-3, atol=1e-4)


def test_without_planted_clients_nothing_is_drawn(tmp_path):
    folder = RunFolder(tmp_path)
    claim, truth = client(1, 1.0, 1)
    claim.save(folder.claim_file("dlg", "1-1"))
    truth.save(folder.truth)
    assert shrink(folder, "dlg", set(), torch.zeros(SHAPE)) == ""
