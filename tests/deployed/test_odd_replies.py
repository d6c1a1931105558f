"""A registered client sends 60 odd replies over gRPC in one run: it goes on, and names each."""

import pytest
from federations import besieged_file, run, small


def sent_and_named(processes, out):
    """Let the enemy send all it has, and look for each in the rounds; how many there were."""
    from hostile_executor import kinds

    who, train, evaluate = kinds().values()
    rounds = len(who) + max(len(train), len(evaluate))
    scenario = small(
        training={"lr": 0.1, "batch-size": 8, "local-steps": 1, "holdout": 0.5},
        federation={"clients": 3, "rounds": rounds, "timeout": 60.0},
    )
    told = []
    records = run(processes, scenario, out, tell=told.append)["rounds"]
    whys = [one["why"] for record in records for one in (*record["failed"], *record.get("odd", ()))]
    assert all(any(why in line for line in told) for why in whys)
    assert [record["round"] for record in records] == list(range(1, rounds + 1))
    assert all(record["clients"] >= 2 for record in records)
    for (kind, (_, words)), record in zip(who.items(), records, strict=False):
        assert any(words in one["why"] for one in record["odd"]), (kind, record)
    later = records[len(who) :]
    for (kind, (_, words)), record in zip(train.items(), later, strict=False):
        (failure,) = record["failed"]
        assert failure["client"] == 1 and words in failure["why"], (kind, failure)
    for (kind, (_, words)), record in zip(evaluate.items(), later, strict=False):
        said = [one["why"] for one in record["odd"] if one["client"] == 1]
        assert any(words in why for why in said), (kind, said)
    return len(who) + len(train) + len(evaluate)


def test_sixty_odd_replies_end_no_run_and_each_is_named(breakable, tmp_path):
    assert sent_and_named(breakable(file=besieged_file(tmp_path)), tmp_path / "run") >= 60


@pytest.mark.hostile
def test_a_dozen_odd_replies_end_no_run_and_each_is_named(besieged, tmp_path, monkeypatch):
    monkeypatch.setenv("HOSTILE_EVERY", "6")
    assert sent_and_named(besieged, tmp_path / "run") >= 10
