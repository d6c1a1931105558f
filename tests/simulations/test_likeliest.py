"""The blind guess of a batch's labels: what overlaps most on average, seen without evidence."""

import torch

from fedpriv.metrics.labels import likeliest, overlap


def test_one_label_is_the_most_frequent_one():
    assert likeliest(torch.tensor([2, 0, 2, 1]), 1).tolist() == [2]


def test_many_labels_have_the_public_shares():
    public = torch.tensor([0] * 50 + [1] * 30 + [3] * 20)
    assert torch.bincount(likeliest(public, 100), minlength=4).tolist() == [50, 30, 0, 20]


def test_nobody_guesses_the_labels_of_a_batch_better_without_evidence():
    """By drawing batches: neither the most frequent label nor public draws overlap more."""
    draw = torch.Generator().manual_seed(3)
    public = torch.multinomial(torch.tensor([0.4, 0.3, 0.2, 0.1]), 2000, True, generator=draw)

    def mean_overlap(guess):
        batches = public[torch.randint(len(public), (300, 8), generator=draw)]
        return float(torch.stack([overlap(guess, own).mean() for own in batches]).mean())

    best = mean_overlap(likeliest(public, 8))
    others = [public[torch.randint(len(public), (8,), generator=draw)] for _ in range(20)]
    assert best > mean_overlap(torch.zeros(8, dtype=torch.long))
    assert best > sum(map(mean_overlap, others)) / len(others)
