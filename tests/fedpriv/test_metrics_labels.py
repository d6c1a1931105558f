import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpriv.errors import BadInput
from fedpriv.metrics.distances import distances
from fedpriv.metrics.features import cosine_similarity, lda_score, scatter
from fedpriv.metrics.intervals import bootstrap
from fedpriv.metrics.labels import (
    f1,
    hit,
    mcc,
    rate_equal,
)
from fedpriv.metrics.tradeoff import cap, pareto, ppc, region


def test_distances_are_the_share_that_is_wrong():
    truth = torch.tensor([0, 1, 2, 2])
    assert hit(torch.tensor([0, 1, 1, 2]), truth).tolist() == [1, 1, 0, 1]
    known = {distance.kind: distance for distance in distances()}
    assert list(known) == ["reconstruction", "membership", "tracing"]

    def of(kind, guess):
        hits = float(hit(guess, truth).mean())
        return known[kind].among({known[kind].metric: hits})[known[kind].column]

    assert of("membership", torch.tensor([0, 1, 1, 2])) == 0.25
    assert of("tracing", torch.tensor([9, 9, 9, 9])) == 1
    assert of("membership", torch.eye(3)[truth]) == 0  # scores will do
    assert known["reconstruction"].among({"relative-error": 0.3}) == {"relative-error": 0.3}


@pytest.mark.filterwarnings("ignore:A single label")
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_f1_and_mcc_are_scikit_learns(pairs):
    from sklearn.metrics import f1_score, matthews_corrcoef

    guess, truth = (torch.tensor(side) for side in zip(*pairs, strict=True))
    wanted = f1_score(truth, guess, labels=range(4), average="macro", zero_division=0)
    assert f1(guess, truth, classes=4) == pytest.approx(wanted)
    assert mcc(guess, truth, classes=4) == pytest.approx(matthews_corrcoef(truth, guess), abs=1e-9)
    two = guess % 2, truth % 2
    assert f1(*two) == pytest.approx(f1_score(two[1], two[0], zero_division=0))


def test_the_rate_of_the_fixed_class():
    assert rate_equal(torch.tensor([1, 1, 0, 1]), 1) == 0.75
    assert rate_equal(torch.eye(2)[[0, 0, 1]], 1) == pytest.approx(1 / 3)


def test_labels_that_are_no_pairs_are_refused():
    with pytest.raises(BadInput, match="2 labels cannot be compared with 3"):
        hit(torch.tensor([0, 1]), torch.tensor([0, 1, 2]))
    with pytest.raises(BadInput, match="0 predictions"):
        f1(torch.tensor([]).long(), torch.tensor([]).long())


def test_variances_within_and_between_add_up_to_the_total():
    torch.manual_seed(0)
    features, identities = torch.randn(50, 7), torch.randint(4, (50,)) * 3
    within, between = scatter(features, identities)
    total = (features - features.mean(0)).square().sum(1).mean()
    assert within + between == pytest.approx(float(total), rel=1e-5)


def test_variances_of_a_worked_example():
    features = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
    identities = torch.tensor([5, 5, 8, 8])
    assert scatter(features, identities) == (1.0, 25.0)
    assert lda_score(features, identities) == 25.0
    assert lda_score(features[[0, 0, 2, 2]], identities) == math.inf
    assert cosine_similarity(features[:1] + 1, features[1:2]).tolist() == [1.0]


def test_ppc_and_its_regions():
    assert ppc(1.0, 1.0) == pytest.approx(math.log10(2))
    assert ppc(0.0, 1.0) == 0 and ppc(1.0, 0.0) == math.inf
    ratios = {0.0: "green", 0.5: "green", 1.01: "white", 9.9: "white", 10.1: "red", 1e4: "red"}
    assert {ratio: region(ppc(ratio, 1.0)) for ratio in ratios} == ratios
    assert region(math.inf) == "red"
    with pytest.raises(BadInput, match="-1"):
        ppc(-1, 2)


def test_cap_is_the_mean_product():
    assert cap([0.5, 0.8], [1.0, 0.25]) == pytest.approx((0.5 + 0.2) / 2)
    with pytest.raises(BadInput, match="got 1 and 2"):
        cap([0.5], [1, 2])
    with pytest.raises(BadInput, match="got 0 and 0"):
        cap([], [])


points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(points)
def test_every_point_is_on_the_front_or_beaten_by_it(given_points):
    front = [given_points[i] for i in pareto(given_points)]
    assert front
    for point in given_points:
        beaten = any(a >= point[0] and b >= point[1] and (a, b) != point for a, b in front)
        assert beaten != (point in front)


def test_an_interval_covers_the_mean_as_often_as_it_says():
    draw = np.random.default_rng(5)
    intervals = [bootstrap(draw.normal(3, 1, 30), seed=i, resamples=400) for i in range(150)]
    covered = np.mean([low <= 3 <= high for low, high in intervals])
    assert 0.86 <= covered <= 1.0
    widths = [bootstrap(draw.normal(3, 1, n))[1] for n in (10, 1000)]
    assert widths[1] - 3 < 0.2


def test_an_interval_is_reproducible_and_takes_any_statistic():
    values = [1.0, 2.0, 2.5, 10.0]
    assert bootstrap(values, seed=1) == bootstrap(values, seed=1) != bootstrap(values, seed=2)
    assert bootstrap([4.0]) == (4.0, 4.0)
    low, high = bootstrap(values, statistic=np.median)
    assert 1 <= low <= 2.25 <= high <= 10
    for bad in ([], [float("nan")]):
        with pytest.raises(BadInput, match="one or more numbers"):
            bootstrap(bad)
    with pytest.raises(BadInput, match=r"got 1.5"):
        bootstrap(values, level=1.5)
