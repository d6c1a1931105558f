"""Recognition: the nearest of a hundred, and a classifier's word, beside a blind guess."""

import torch

from fedpriv.metrics.recognition import AMONG, recogniser


def blobs(count, shape, seed):
    """Samples of two classes, bright on one side or on the other."""
    stream = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 2
    x = 0.3 * torch.rand(count, *shape, generator=stream)
    half = shape[-1] // 2
    x[y == 0, ..., :half] += 0.6
    x[y == 1, ..., half:] += 0.6
    return x, y


def test_an_exact_copy_is_the_nearest_and_a_mean_is_not():
    for shape in ((1, 16, 16), (20,)):
        public, labels = blobs(300, shape, seed=1)
        who = recogniser(public, labels, classes=2, seed=3)
        assert len(who.others) == AMONG - 1
        x, y = blobs(20, shape, seed=2)
        assert who.fits(x) and not who.fits(x[..., :4])
        assert who.nearest(x, x).sum() == 0
        assert who.nearest(public.mean(0).expand_as(x), x).float().mean() > 0.8
        assert (who.named(x) == y).float().mean() > 0.9


def test_it_is_the_same_every_time_and_leaves_the_stream_alone():
    x, y = blobs(200, (1, 16, 16), seed=1)
    torch.manual_seed(4)
    first, before = recogniser(x, y, 2, seed=3), torch.rand(1)
    torch.manual_seed(4)
    again = torch.rand(1)
    second = recogniser(x, y, 2, seed=3)
    assert torch.equal(before, again)
    state = second.classifier.state_dict()
    for key, value in first.classifier.state_dict().items():
        assert torch.equal(value, state[key])


def test_few_public_samples_do():
    x, y = blobs(40, (20,), seed=1)
    assert recogniser(x, y, 2, seed=0).named(x).shape == (40,)
