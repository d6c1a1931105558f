"""Who is who: odd answers, a partition claimed twice, nodes that go and come back."""

import odd_replies
import pytest
from enemy import ODD, answering, enemy, rounds_of, run_of, world

from fedpriv.clients.app import app as honest
from fedpriv.scenario.built import first_state

NODE = f"node {ODD + 2}"


def told(record):
    return [one["why"] for one in record.get("odd", []) if one["client"] == NODE]


@pytest.fixture(scope="module")
def asked():
    """One run: the enemy answers oddly, is asked again the next round, and is honest at last."""
    kinds = odd_replies.WHO | {"honest": (lambda reply, message: reply, "")}
    last = odd_replies.WHO["another's partition"]  # whoever said one is not asked again
    kinds = {k: v for k, v in kinds.items() if v is not last}
    return kinds, rounds_of(kinds, on="query")[1]


@pytest.mark.parametrize("kind", [k for k in odd_replies.WHO if k != "another's partition"])
def test_an_odd_answer_to_who_are_you_is_named_and_the_run_goes_on(asked, kind):
    kinds, records = asked
    (why,) = told(records[kind])
    assert kinds[kind][1] in why and why.isprintable()
    assert records[kind]["clients"] == 2


def test_an_enemy_that_becomes_honest_is_let_in(asked):
    _, records = asked
    assert records["honest"]["clients"] == 3 and not told(records["honest"])


def test_a_partition_claimed_twice_is_an_alarm_and_the_first_one_keeps_it():
    run, records = run_of(world(), enemy([odd_replies.WHO["another's partition"][0]], "query"))
    run.run(first_state(world()), [1, 2])
    (why,) = told(records[0])
    assert "ALARM" in why and "partition 0" in why and "node 2" in why
    assert [record["clients"] for record in records] == [2, 2]
    assert run.roster.name(2) == 0 and run.roster.name(ODD + 2) == NODE


def claiming_zero():
    """A client that claims partition 0, whatever its own is."""
    how = odd_replies.WHO["another's partition"][0]
    return answering(lambda kind: how if kind == "query" else None)


def test_a_node_stands_in_while_the_owner_is_away_and_no_longer():
    scenario = world()
    run, records = run_of(scenario, claiming_zero())
    state = run.run(first_state(scenario), [1])
    owner = run.grid.contexts.pop(2)
    state = run.run(state, [2])
    run.grid.contexts[2] = owner
    run.run(state, [3])
    assert [record["clients"] for record in records] == [2, 2, 2]
    assert any("node 3 stands in" in one["why"] for one in records[1]["odd"])
    assert any("node 2 is back" in one["why"] for one in records[2]["odd"])


def test_a_node_that_comes_back_under_another_id_takes_its_partition_over():
    """Without registered keys a SuperNode gets a new id every time it starts."""
    scenario = world()
    run, records = run_of(scenario, honest)
    state = run.run(first_state(scenario), [1])
    context = run.grid.contexts.pop(2)
    context.node_id = 50
    run.grid.contexts[50] = context
    run.run(state, [2])
    assert records[1]["clients"] == 3 and run.roster.name(50) == 0
    assert any("node 50" in one["why"] for one in records[1]["odd"])


def test_samples_that_a_partition_cannot_have_are_told():
    kinds = {"bragging": (odd_replies.metric("num-examples", 10**9), "")}
    _, records = rounds_of(kinds, on="query")
    (line,) = records["bragging"]["odd"]
    assert line["client"] == ODD and "counts for no more" in line["why"]


def test_a_strategy_of_somebody_else_does_not_ask_a_refused_node():
    scenario = world(federation={"strategy": "flwr.serverapp.strategy:FedAvg"})
    run, records = run_of(scenario, enemy([odd_replies.WHO["another's partition"][0]], "query"))
    run.run(first_state(scenario), [1])
    assert records[0]["asked"] == records[0]["clients"] == 2
