"""Which clients of an app are attacked: each once, of few rounds, and enough of them."""

from collections import Counter

import pytest

from fedpriv.simulations.apps.choosing import CLIENTS, each_once, inwards, updates_of


def drawn(rounds, clients, each):
    """Rounds that ask some clients in turn, as a strategy with a fraction does."""
    return [(r + 1, (r * each + k) % clients) for r in range(rounds) for k in range(each)]


def test_a_claim_about_a_tenth_needs_29_clients():
    assert CLIENTS == 29


@pytest.mark.parametrize(
    ("rounds", "clients", "each"), [(3, 30, 30), (10, 50, 12), (3, 10, 10), (3, 100, 20)]
)
def test_every_client_counts_once_and_as_many_as_are_needed(rounds, clients, each):
    places = drawn(rounds, clients, each)
    found = each_once(places)
    assert set(found) <= set(places)
    assert len({node for _, node in found}) == len(found)
    assert len(found) == min(CLIENTS, len({node for _, node in places}))


def test_half_are_of_the_first_round_and_half_of_the_last():
    found = Counter(number for number, _ in each_once(drawn(5, 30, 30)))
    assert found == {1: 15, 5: 14}


def test_clients_are_drawn_at_random_and_the_same_ones_every_time():
    places = drawn(2, 60, 60)
    one, again, other = each_once(places), each_once(places), each_once(places, seed=1)
    assert one == again != other
    assert max(node for _, node in one) > 40  # partitions may be sorted by their size


def test_rounds_are_taken_from_both_ends():
    assert inwards([1, 2, 3, 4, 5]) == [1, 5, 2, 4, 3]


def test_few_clients_are_attacked_in_a_second_round_too():
    found = updates_of(drawn(3, 4, 4), 30)
    assert len(found) == len(set(found)) == 12
    assert len({node for _, node in found[:4]}) == 4
