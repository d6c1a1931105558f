import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpriv.data.partition import class_counts, partition, vertical
from fedpriv.errors import BadOption

LABELS = torch.arange(1000) % 10


def whole(parts):
    return np.sort(np.concatenate(parts)).tolist()


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=80), st.integers(1, 12), st.integers(0, 9))
def test_iid_gives_every_sample_once_and_every_class_evenly(labels, clients, seed):
    if clients > len(labels):
        clients = len(labels)
    parts = partition(np.array(labels), clients, seed=seed)
    counts = class_counts(np.array(labels), parts, 6)
    assert whole(parts) == list(range(len(labels)))
    assert (np.ptp(counts, axis=0) <= 1).all() and np.ptp(counts.sum(axis=1)) <= 1


def test_these_very_indices_on_every_machine():
    parts = partition(LABELS, 4, seed=7)
    assert parts[0][:5].tolist() == [4, 5, 6, 12, 22] and parts[0].dtype == np.int64
    assert not np.array_equal(parts[0], partition(LABELS, 4, seed=8)[0])


def test_dirichlet_divides_classes_unevenly_and_reproducibly():
    parts = partition(LABELS, 5, "dirichlet", alpha=0.3, seed=1)
    counts = class_counts(LABELS, parts, 10)
    assert whole(parts) == list(range(1000))
    assert counts.sum() == 1000 and counts.std(axis=0).mean() > 15
    even = class_counts(LABELS, partition(LABELS, 5, "dirichlet", alpha=1e5, seed=1), 10)
    assert even.std(axis=0).mean() < 2
    again = partition(LABELS, 5, "dirichlet", alpha=0.3, seed=1)
    other = partition(LABELS, 5, "dirichlet", alpha=0.3, seed=2)
    assert all(map(np.array_equal, parts, again)) and not np.array_equal(parts[0], other[0])


def test_dirichlet_that_cannot_be_is_an_error():
    with pytest.raises(BadOption, match=r"alpha=0.001.*50 clients.*raise alpha"):
        partition(LABELS, 50, "dirichlet", alpha=0.001, seed=0)
    with pytest.raises(BadOption, match="alpha must be positive, got 0"):
        partition(LABELS, 5, "dirichlet", alpha=0)


def test_shards_give_each_client_few_classes():
    parts = partition(LABELS, 10, "shards", shards_each=2, seed=3)
    counts = class_counts(LABELS, parts, 10)
    assert whole(parts) == list(range(1000))
    assert (counts.sum(axis=1) == 100).all() and ((counts > 0).sum(axis=1) <= 2).all()
    assert all(map(np.array_equal, parts, partition(LABELS, 10, "shards", shards_each=2, seed=3)))


def test_shards_leave_out_only_what_does_not_fill_one():
    parts = partition(LABELS[:103], 4, "shards", shards_each=3)
    assert {len(part) for part in parts} == {24} and len(set(whole(parts))) == 96


def test_owners_keep_their_samples():
    owners = torch.tensor([3, 1, 3, 2, 1, 9])
    assert [p.tolist() for p in partition(torch.zeros(6), 2, "natural", owners=owners)] == [
        [0, 1, 2, 4],
        [3, 5],
    ]


@pytest.mark.parametrize(
    ("clients", "options", "message"),
    [
        (0, {}, r"1\.\.1000.*got 0"),
        (1001, {}, r"1\.\.1000.*got 1001"),
        (5, {"kind": "sharts"}, "No partition is named 'sharts'"),
        (600, {"kind": "shards"}, "600 × 2"),
        (3, {"kind": "natural"}, "no natural owners"),
        (3, {"kind": "natural", "owners": LABELS % 2}, "the data have 2"),
    ],
)
def test_what_cannot_be_divided_is_named(clients, options, message):
    with pytest.raises(BadOption, match=message):
        partition(LABELS, clients, **options)


def test_columns_are_split_evenly_and_attributes_stay_whole():
    groups = {
        "age": slice(0, 1),
        "job": slice(1, 6),
        "town": slice(6, 13),
        "age:group": slice(13, 16),
    }
    parts = vertical(groups, 2)
    assert [part.tolist() for part in parts] == [
        [6, 7, 8, 9, 10, 11, 12],
        [0, 1, 2, 3, 4, 5, 13, 14, 15],
    ]
    assert [len(part) for part in vertical(133, 3)] == [45, 44, 44]
    assert whole(vertical(133, 3)) == list(range(133))
    with pytest.raises(BadOption, match=r"1\.\.3.*got 4"):
        vertical(groups, 4)
