"""Odd codes and encoders: a party that sends rubbish is left out, the others are learned from."""

from dataclasses import replace

import numpy as np
import odd_replies
import pytest
import torch
from enemy import ODD, answering, lines, rounds_of, run_of, world
from odd_replies import arrays, contents, first, headed, metric, npy, without

from fedpriv.strategies.roster import roster_of

SHARING = {
    "options": {"hidden": [4], "code": 3},
    "encoder-epochs": 1,
    "task-epochs": 1,
    "lr": 0.01,
    "batch-size": 20,
    "victims": 2,
}


def sharing(**representation):
    return world(federation={"strategy": "representation"}, representation=SHARING | representation)


def vertical():
    table = {"kind": "table", "size": 9, "train": 60, "test": 20}
    return world(
        data={"options": table},
        federation={"strategy": "vertical"},
        representation=SHARING | {"curious-samples": 10},
    )


def entry(name, change):
    return arrays(lambda state: state | {name: change(state[name])})


CODES = {
    "no codes": (contents(lambda c: without(c, "arrays")), "no codes"),
    "no arrays": (arrays(lambda s: {}), "lack"),
    "no test codes": (arrays(lambda s: without(s, "test")), "lack test"),
    "10^13 codes": (first(lambda v: headed(f"({10**13}, 3)", fortran=True)), "not fit"),
    "code of rubbish": (first(lambda v: npy("rubbish")), "header"),
    "codes of doubles": (entry("z", lambda v: v.double()), "float64"),
    "codes of another size": (entry("z", lambda v: v[:, :1]), "shape"),
    "codes NaN": (entry("z", lambda v: v * torch.nan), "NaN"),
    "codes 1e30": (entry("z", lambda v: v * 0 + 1e30), "beyond"),
    "codes of nobody": (entry("z", lambda v: v[:0]), "codes came with"),
    "more rows than there are": (entry("z", lambda v: v.repeat(400, 1)), "bytes where"),
    "labels less": (entry("y", lambda v: v[1:]), "labels"),
    "labels beyond": (entry("y", lambda v: v + 1000), "classes"),
    "labels negative": (entry("y", lambda v: v - 1000), "classes"),
    "labels of fractions": (entry("y", lambda v: v.float()), "float32"),
    "labels left out": (arrays(lambda s: without(s, "y")), "labels"),
    "test ids beyond": (entry("test-ids", lambda v: v + 10**9), "rows outside"),
    "test ids negative": (entry("test-ids", lambda v: -1 - v), "rows outside"),
    "test ids twice": (entry("test-ids", lambda v: v * 0), "twice"),
    "an array more": (arrays(lambda s: s | {"more": s["z"]}), "not what codes are made of"),
    "an encoder": (arrays(lambda s: s | {"encoder/0.weight": s["z"]}), "not what codes"),
    "metrics list": (metric("num-examples", [1]), "list"),
    "error": odd_replies.FIGURES["an error that forges lines"],
}


@pytest.fixture(scope="module")
def shared():
    return rounds_of(CODES, on="query.codes", scenario=sharing())[1]


@pytest.mark.parametrize("kind", CODES)
def test_odd_codes_are_named_and_left_out(shared, kind):
    (why,) = lines(shared[kind])
    assert CODES[kind][1] in why
    assert shared[kind]["clients"] == 2 and np.isfinite(shared[kind]["accuracy"])


COLUMNS = {
    "no ids": (arrays(lambda s: without(s, "ids")), "ids"),
    "ids twice": (entry("ids", lambda v: v * 0), "twice"),
    "ids beyond": (entry("ids", lambda v: v + 10**9), "rows outside"),
    "few rows": (
        arrays(lambda s: s | {"z": s["z"][:2], "ids": s["ids"][:2]}),
        "lacks too many",
    ),
    "few test rows": (
        arrays(lambda s: s | {"test": s["test"][:1], "test-ids": s["test-ids"][:1]}),
        "lacks too many",
    ),
    "labels of its own": (
        arrays(lambda s: s | {"y": torch.zeros(len(s["z"]), 1, dtype=torch.int64)}),
        "only from it",
    ),
    "10^13 ids": (first(lambda v: headed(f"({10**13},)", "'<i8'")), "not fit"),
}


@pytest.fixture(scope="module")
def beside():
    return rounds_of(COLUMNS, on="train.columns", scenario=vertical())[1]


@pytest.mark.parametrize("kind", COLUMNS)
def test_odd_columns_are_named_and_left_out(beside, kind):
    (why,) = lines(beside[kind])
    assert COLUMNS[kind][1] in why and np.isfinite(beside[kind]["accuracy"])


def unequal():
    """A federation in which the enemy holds most, and is asked for the encoder first."""
    uneven = world(
        data={"partition": "dirichlet", "alpha": 1.0},
        federation={"strategy": "representation"},
        representation=SHARING,
    )
    every = (replace(uneven, seed=seed) for seed in range(100))
    return next(one for one in every if np.argmax(roster_of(one).sizes) == ODD)


ENCODERS = ("npz", "NaN", "no metrics", "a parameter less", "arrays by another name")


@pytest.mark.parametrize("kind", ENCODERS)
def test_an_odd_encoder_is_named_and_the_next_party_is_asked(kind):
    how, words = odd_replies.TRAINING[kind]
    _, records = rounds_of({kind: (how, words)}, on="train.encoder", scenario=unequal())
    assert words in lines(records[kind])[0] and records[kind]["clients"] == 3


def test_who_claims_most_samples_does_not_make_the_encoder():
    """The initiator's encoder is everybody's: it must not be that of whoever says the most."""
    asked = []

    def publishing(reply, message):
        asked.append(message)
        return reply

    odd = {"query": metric("num-examples", 10**9), "train.encoder": publishing}
    run, records = run_of(sharing(), answering(lambda kind: odd.get(kind)))
    run.run({}, [1])
    assert not asked and records[0]["clients"] == 3
    assert any("counts for" in why for why in lines(records[0]))


def test_an_odd_answer_of_a_party_that_learned_is_left_out():
    kinds = {
        "no accuracy": (odd_replies.figures(lambda f: {"num-examples": 1}), "how accurate"),
        "list": (metric("accuracy-label", [1.0]), "list"),
        "honest": (lambda reply, message: reply, ""),
    }
    scenario = sharing(learner="clients")
    _, records = rounds_of(kinds, on="train.pool", scenario=scenario)
    for kind in ("no accuracy", "list"):
        assert kinds[kind][1] in lines(records[kind])[0]
    assert not lines(records["honest"])
    own = [key for key in records["list"] if key.startswith("train-own-accuracy")]
    assert own and set(own) <= set(records["list"]["claimed"])
