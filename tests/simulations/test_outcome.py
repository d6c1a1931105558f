"""Leaks, holds or undecided: what scores decide, and what they do not."""

import numpy as np
import pytest

from fedpriv.metrics.gates import parsed
from fedpriv.simulations.judging.outcome import by_worst, outcomes, overall

PSNR = parsed("psnr>20")


def rows(values, blind=10.0, attack="dlg", metric="psnr", clients=1000, **more):
    return [
        {
            "node": i % clients,
            "victim": i,
            "attack": attack,
            "by": "curious server",
            "round": 1,
            metric: value,
            f"{metric}-blind": blind,
            **more,
        }
        for i, value in enumerate(values)
    ]


def test_one_sample_beyond_the_bound_is_a_leak():
    found = by_worst(PSNR, rows([12.0] * 40 + [31.0]))
    assert (found.word, found.hits, found.victims) == ("leaks", 1, 41)
    assert found.worst == 31.0 and found.blind == 10.0


def test_three_attacks_on_two_samples_are_two_victims():
    scores = [row for attack in "abc" for row in rows([12.0, 13.0], attack=attack)]
    found = by_worst(PSNR, scores)
    assert (found.word, found.victims) == ("undecided", 2)
    assert (round(found.low, 2), round(found.high, 2)) == (0.0, 0.84)
    assert "29 are needed" in found.why


def test_twenty_nine_samples_without_a_hit_hold():
    assert by_worst(PSNR, rows([12.0] * 29)).word == "holds"
    assert by_worst(PSNR, rows([12.0] * 28)).word == "undecided"


def test_samples_of_few_clients_may_leak_together():
    """Nine clients with forty samples each are nine draws; codes are read one by one."""
    few = by_worst(PSNR, rows([12.0] * 360, clients=9))
    assert (few.word, few.unit, few.counted) == ("undecided", "client", (0, 9))
    assert few.high == pytest.approx(0.336, abs=0.001) and "9 clients without a hit" in few.why
    assert by_worst(PSNR, rows([12.0] * 360, clients=29)).word == "holds"
    codes = [{**row, "by": "curious party"} for row in rows([12.0] * 360, clients=2)]
    assert by_worst(PSNR, codes).counted == (0, 360) and by_worst(PSNR, codes).word == "holds"


def test_labels_of_clients_that_go_together_are_worth_fewer_samples():
    """All labels of one client in ten are read: the ten clients count, and not their samples."""
    together = [
        {**row, "label-hit": float(row["node"] == 0)} for row in rows([0.0] * 400, clients=10)
    ]
    spread = [{**row, "label-hit": float(i % 10 == 0)} for i, row in enumerate(rows([0.0] * 400))]
    for scores in (together, spread):
        for row in scores:
            row["label-hit-blind"] = 0.1
    (one,), (other,) = (
        [o for o in outcomes([], s) if o.claim == "labels"] for s in (together, spread)
    )
    assert one.hits == other.hits == 40
    assert other.word == "holds" and one.word == "undecided"
    assert one.high > 0.4 > 0.15 > other.high


def test_the_worst_attack_on_a_victim_counts():
    weak, strong = rows([12.0] * 30, attack="weak"), rows([25.0], attack="strong")
    found = by_worst(PSNR, weak + strong)
    assert (found.word, found.hits, found.victims, found.attack) == ("leaks", 1, 30, "strong")


def test_worse_than_a_blind_guess_is_no_leak():
    found = by_worst(PSNR, rows([22.0] * 30, blind=24.0))
    assert (found.word, found.hits) == ("undecided", 0)
    assert "attacked badly" in found.why and "2.0 dB worse than a blind guess" in found.why


def test_one_attack_as_good_as_a_blind_guess_is_enough():
    bad, fair = rows([5.0] * 30, attack="bad"), rows([9.5, 10.5] * 15, attack="fair")
    assert by_worst(PSNR, bad + fair).word == "holds"
    assert by_worst(PSNR, bad).word == "undecided"


def test_a_rate_below_a_blind_guess_was_attacked_badly():
    scores = rows([0.0] * 60, blind=0.2, metric="label-hit")
    found = outcomes([], scores)[0]
    assert found.word == "undecided" and "attacked badly" in found.why
    fair = rows([0.0, 0.0, 0.0, 0.0, 1.0] * 40, blind=0.2, metric="label-hit", attack="fair")
    assert outcomes([], scores + fair)[0].word == "holds"


def test_an_analysis_decides_nothing():
    told = [{**row, "by": "analysis"} for row in rows([40.0] * 30)]
    assert [one.word for one in outcomes([PSNR], told)] == ["undecided"]


def test_an_attribute_read_far_above_chance_is_a_leak():
    right = np.random.default_rng(0).random(1024) < 0.91
    blind = np.random.default_rng(1).random(1024) < 0.33
    scores = rows(right.astype(float), metric="attribute-hit", attribute="age")
    for row, guess in zip(scores, blind, strict=True):
        row["attribute-hit-blind"] = float(guess)
    (found,) = outcomes([], scores)
    assert (found.claim, found.word) == ("attribute", "leaks")
    assert found.low > 0.85 and found.blind == pytest.approx(0.33, abs=0.05)


def test_labels_at_chance_hold_and_few_labels_decide_nothing():
    def labels(count):
        hits = np.arange(count) % 10 == 0
        return outcomes([], rows(hits.astype(float), blind=0.1, metric="label-hit"))[0]

    assert labels(400).word == "holds"
    assert labels(10).word == "undecided"


def test_the_best_of_many_lucky_guessers_is_not_a_leak():
    """Twenty attacks that guess labels at random: their best looks good, and is chance."""
    draw = np.random.default_rng(5)
    scores = [
        row
        for attack in range(20)
        for row in rows(
            (draw.random(60) < 0.1).astype(float),
            blind=0.1,
            metric="label-hit",
            attack=str(attack),
        )
    ]
    assert outcomes([], scores)[0].word != "leaks"


def test_each_kind_of_claim_has_its_own_outcome():
    scores = [
        {**row, "label-hit": 1.0, "label-hit-blind": 0.1, "ssim": 0.1} for row in rows([12.0] * 40)
    ]
    found = {one.claim: one for one in outcomes([], scores)}
    assert {claim: one.word for claim, one in found.items()} == {
        "sample": "holds",
        "labels": "leaks",
    }
    assert found["sample"].metric == "psnr"
    assert overall(list(found.values())) == "leaks"


def test_a_doubt_makes_it_undecided_and_never_hides_a_leak():
    holds, leaks = by_worst(PSNR, rows([12.0] * 40)), by_worst(PSNR, rows([31.0]))
    assert overall([holds]) == "holds"
    assert overall([holds], ["training did not finish"]) == "undecided"
    assert overall([leaks], ["training did not finish"]) == "leaks"
    assert overall([]) == "undecided"


def test_at_most_a_tenth_is_wrong_in_at_most_one_audit_in_twenty():
    """Audits of a federation that leaks 11 % of its samples: few may say that it holds."""
    draw, wrong, audits = np.random.default_rng(2), 0, 60
    for _ in range(audits):
        hits = draw.random(29) < 0.11
        wrong += by_worst(PSNR, rows(np.where(hits, 30.0, 12.0))).word == "holds"
    assert wrong <= 9  # 5 % of 60 are 3; more than 9 happen by chance once in a thousand
