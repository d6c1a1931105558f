"""Odd replies in secure aggregation: who does not follow a stage is left out of the sum."""

import io

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from enemy import ODD, answering, lines, run_of, world
from flwr.app import ConfigRecord
from odd_replies import FORGED, answer, error, headed, records, saved, zipped

from fedpriv.scenario.built import first_state

KEY = "secaggplus_configs"


def configs(change):
    """A kind with another record of the protocol, from the honest one."""

    def odd(reply, message):
        changed = change(dict(reply.content[KEY].items()))
        return answer(message, records(reply) | {KEY: ConfigRecord(changed)})

    return odd


def examples(value):
    def odd(reply, message):
        reply.content["fitres.num_examples"]["num_examples"] = value
        return reply

    return odd


def no_weight(reply, message):
    kept = {k: v for k, v in records(reply).items() if k != "fitres.num_examples"}
    return answer(message, kept)


def masked(change):
    return configs(lambda c: {"masked_params": change(c["masked_params"])})


def flat_curve():
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


STAGES = {
    "setup": {
        "refusal": (error(451, FORGED), "ok 2026"),
        "no record": (lambda r, m: answer(m, {}), "no answer"),
        "no keys": (configs(lambda c: {"pk1": 5, "pk2": 6}), "public keys"),
        "rubbish keys": (configs(lambda c: c | {"pk1": b"rubbish"}), "cannot be read"),
        "long keys": (configs(lambda c: c | {"pk1": bytes(10**5)}), "public keys"),
        "same keys": (configs(lambda c: c | {"pk2": c["pk1"]}), "same"),
        "another curve": (configs(lambda c: c | {"pk2": flat_curve()}), "curve"),
    },
    "share_keys": {
        "refusal": (error(451, "no"), "no"),
        "no lists": (configs(lambda c: {"dsts": 3, "ctxts": 4}), "lists"),
        "unequal lists": (configs(lambda c: c | {"ctxts": c["ctxts"][1:]}), "one length"),
        "strangers": (configs(lambda c: c | {"dsts": [77, 78]}), "other nodes"),
        "one left out": (
            configs(lambda c: {"dsts": c["dsts"][1:], "ctxts": c["ctxts"][1:]}),
            "other nodes",
        ),
        "long": (configs(lambda c: c | {"ctxts": [bytes(10**5)] * 2}), "bytes"),
        "text": (configs(lambda c: c | {"ctxts": ["a", "b"]}), "bytes"),
    },
    "collect_masked_vectors": {
        "refusal": (error(451, "no"), "no"),
        "nothing": (masked(lambda p: []), "masked arrays"),
        "one less": (masked(lambda p: p[1:]), "masked arrays"),
        "npz": (masked(lambda p: [zipped([1]), *p[1:]]), "do not begin"),
        "10^13": (masked(lambda p: [headed(f"({10**13},)", "'<i8'"), *p[1:]]), "not fit"),
        "floats": (masked(lambda p: [saved([1.0]), *p[1:]]), "float64"),
        "swapped": (masked(lambda p: [p[1], p[0], *p[2:]]), "bytes where|shape"),
        "weight 1e15": (examples(10**15), "samples are possible"),
        "weight 0": (examples(0), "samples are possible"),
        "no weight": (no_weight, "weight"),
    },
    "unmask": {
        "refusal": (error(451, "no"), "no"),
        "strangers": (configs(lambda c: c | {"nids": [5, 6, 7]}), "other nodes"),
        "short": (configs(lambda c: {"nids": c["nids"][1:], "shares": c["shares"][1:]}), "other"),
        "rubbish": (configs(lambda c: c | {"shares": [b"rubbish"] * 3}), "shares"),
        "wrong": (
            configs(lambda c: c | {"shares": [s[:-1] + bytes([s[-1] ^ 1]) for s in c["shares"]]}),
            "shares",
        ),
    },
}
ORDER = list(STAGES)


def summed(odd, rounds=1):
    """A run with sums; `odd` gives the enemy's answer to a stage, or None."""
    scenario = world(federation={"secagg": True})
    run, found = run_of(scenario, answering(after(odd)))
    return run.run(first_state(scenario), range(1, rounds + 1)), found


def after(odd):
    """Stages come in order, one message each."""
    seen = []

    def answer_to(kind):
        if kind != "train":
            return None
        seen.append(kind)
        return odd(ORDER[(len(seen) - 1) % 4])

    return answer_to


@pytest.mark.parametrize(
    ("stage", "kind"), [(stage, kind) for stage, kinds in STAGES.items() for kind in kinds]
)
def test_an_odd_reply_of_a_stage_is_named_and_the_others_are_summed(stage, kind):
    how, words = STAGES[stage][kind]
    _, (record,) = summed(lambda now: how if now == stage else None)
    if stage != "unmask":  # whoever sent its masked numbers is in the sum
        assert record["clients"] == 2
        assert any(word in lines(record)[0] for word in words.split("|"))
    assert record["clients"] >= 2 and record["accuracy"] == 0.0


def scrambled(part):
    """Masked numbers with other random ones on top, which nobody can take out again."""
    values = np.load(io.BytesIO(part))
    more = np.random.default_rng(1).integers(0, 2**32, values.shape)
    return saved((values + more) % 2**32)


def test_masked_rubbish_spoils_a_sum_but_not_the_run():
    """Nobody can tell whose masked numbers are rubbish: the round is lost, the next one is not."""
    ways = [masked(lambda parts: [scrambled(part) for part in parts])]
    _, (first, second) = summed(
        lambda now: ways.pop() if now == "collect_masked_vectors" and ways else None, rounds=2
    )
    assert first["clients"] == 0 and len(first["failed"]) == 3
    assert "wrong numbers" in lines(first)[0]
    assert second["clients"] == 3 and not second["failed"]


def test_wrong_shares_are_left_out_and_their_sender_is_named(caplog):
    how, _ = STAGES["unmask"]["wrong"]
    end, (record,) = summed(lambda now: how if now == "unmask" else None)
    expected, _ = summed(lambda now: None)
    assert record["clients"] == 3
    assert all(torch.allclose(end[key], expected[key], atol=1e-5) for key in expected)
    assert f"node {ODD + 2}: its shares of the others' keys are wrong" in caplog.text
