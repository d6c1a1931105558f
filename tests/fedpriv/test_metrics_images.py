import numpy as np
import pytest
import torch
from torch.testing import assert_close

from fedpriv.catalogue import METRICS
from fedpriv.errors import BadInput
from fedpriv.metrics.images import mse, psnr, relative_error, ssim
from fedpriv.metrics.matching import assignment, nearest, squared_distances
from fedpriv.metrics.perceptual import RandomFeatures, feature_distance
from fedpriv.rng import generator


@pytest.fixture
def pair():
    draw = generator(0, "pictures")
    return torch.rand(3, 3, 12, 12, generator=draw), torch.rand(3, 3, 12, 12, generator=draw)


def test_worked_numbers():
    truth = torch.full((1, 1, 4, 4), 0.5)
    guess = truth + 0.1
    assert mse(guess, truth).item() == pytest.approx(0.01)
    assert psnr(guess, truth).item() == pytest.approx(20, abs=1e-4)
    assert relative_error(guess, truth).item() == pytest.approx(0.2)
    assert relative_error(torch.zeros_like(truth), truth).item() == 1


def test_psnr_and_ssim_are_scikit_images(pair):
    from skimage.metrics import peak_signal_noise_ratio, structural_similarity

    guess, truth = pair
    for i in range(3):
        a, b = (x[i].double().permute(1, 2, 0).numpy() for x in (guess, truth))
        assert psnr(guess, truth)[i] == pytest.approx(peak_signal_noise_ratio(b, a, data_range=1))
        wanted = structural_similarity(b, a, data_range=1, channel_axis=2)
        assert ssim(guess, truth)[i] == pytest.approx(wanted)


def compared_by(metric, pair):
    """What three samples are compared by: a wrong guess, the truth, and the best guess.

    Pictures, or class indices of which none occurs in the truth, whether another sample is nearer
    than the original, rates, shares of classes, or for members the shares of held-out samples that
    score above them and at least as high.
    """
    truth = torch.tensor([0, 1, 2])
    if metric.of in ("labels", "owner", "attribute", "recognised"):
        return truth + 3, truth, truth
    if metric.of == "nearest":
        original = torch.zeros_like(truth)
        return original + 1, original, original
    if metric.of == "rate":
        rates = torch.tensor([0.0, 0.25, 0.5])
        return rates + 0.5, rates, rates
    if metric.of == "classes":
        shares = torch.tensor([[0.5, 0.5, 0.0, 0.0]]).expand(3, 4)
        return shares.flip(1), shares, shares
    if metric.of == "member":
        return torch.full((3, 2), 0.9), truth, torch.zeros(3, 2)
    return *pair, pair[1]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_gives_one_value_a_sample_and_knows_the_best_guess(name, pair):
    metric = METRICS.build(name)
    guess, truth, best = compared_by(metric, pair)
    values, same = metric(guess, truth), metric(best, truth)
    assert values.shape == same.shape == (3,) and values.isfinite().all()
    assert (same > values).all() if metric.leaks == "high" else (same < values).all()


@pytest.mark.parametrize("name", METRICS)
def test_a_sample_is_scored_alone(name, pair):
    metric = METRICS.build(name)
    guess, truth, _ = compared_by(metric, pair)
    assert_close(metric(guess, truth)[1:2], metric(guess[1:2], truth[1:2]))


def test_pictures_that_are_no_pairs_are_refused(pair):
    with pytest.raises(BadInput, match="match the samples first"):
        mse(pair[0][:2], pair[1])
    with pytest.raises(BadInput, match="3×3"):
        ssim(torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2))


def test_small_pictures_have_a_structural_similarity():
    x = torch.rand(2, 1, 4, 4, generator=generator(1))
    assert_close(ssim(x, x), torch.ones(2, dtype=torch.double))


def test_feature_distance_sees_a_blur_less_than_another_picture(pair):
    truth, other = pair
    near = (truth + 0.02 * torch.randn(truth.shape, generator=generator(2))).clamp(0, 1)
    features = RandomFeatures(3)
    assert (
        feature_distance(near, truth, features) < feature_distance(other, truth, features)
    ).all()
    assert_close(features(truth)[0], RandomFeatures(3)(truth)[0])


def test_an_unknown_network_is_named():
    with pytest.raises(BadInput, match="nowhere:Net"):
        METRICS.build("features", {"network": "nowhere:Net"})


def test_a_shuffled_batch_is_put_in_order(pair):
    truth = torch.rand(5, 2, 3, 3, generator=generator(3))
    order = torch.tensor([3, 0, 4, 1, 2])
    guess = truth[order] + 0.01
    g, t = assignment(guess, truth)
    assert t.tolist() == [0, 1, 2, 3, 4]
    assert order[g].tolist() == [0, 1, 2, 3, 4]


def test_the_assignment_is_the_best_of_all_not_the_nearest_of_each():
    truth = torch.tensor([[0.0], [1.0]])
    guess = torch.tensor([[0.6], [2.0]])  # both are nearest to 1
    g, t = assignment(guess, truth)
    assert (g.tolist(), t.tolist()) == ([0, 1], [0, 1])


def test_the_longer_side_leaves_some_alone():
    truth = torch.tensor([[5.0], [1.0]])
    g, t = assignment(torch.tensor([[9.0], [1.1], [4.9], [torch.nan]]), truth)
    assert (g.tolist(), t.tolist()) == ([2, 1], [0, 1])
    g, t = assignment(torch.tensor([[1.2]]), truth)
    assert (g.tolist(), t.tolist()) == ([0], [1])
    with pytest.raises(BadInput, match="one shape"):
        assignment(torch.zeros(2, 3), truth)


def test_pairwise_distances_are_those_of_a_loop():
    a, b = np.random.default_rng(0).random((2, 4, 6)).astype(np.float32)
    table = squared_distances(torch.from_numpy(a), torch.from_numpy(b))
    for i in range(4):
        for j in range(4):
            assert table[i, j] == pytest.approx(np.square(a[i] - b[j]).mean(), rel=1e-5)


def test_the_nearest_reconstruction_is_found_in_chunks():
    pool = torch.rand(40, 2, 3, generator=generator(4))
    query = pool[[7, 3, 39, 7]] + 1e-3
    assert nearest(query, pool, chunk=3).tolist() == [7, 3, 39, 7]
    with pytest.raises(BadInput, match="empty"):
        nearest(query, pool[:0])
