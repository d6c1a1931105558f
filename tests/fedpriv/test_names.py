"""Registries and the binding of options people type."""

from dataclasses import dataclass
from typing import Literal

import pytest

from fedpriv.errors import BadOption
from fedpriv.registry import Entry, Registry
from fedpriv.scenario.binding import bound, call


@dataclass(frozen=True)
class Thing:
    size: int
    kind: Literal["a", "b"] = "a"
    weights: tuple[float, ...] = ()
    max_steps: int | None = None


THINGS = Registry("thing", "things", {"thing": Entry(Thing, "a thing", "none")})


def test_kebab_case_and_lists_become_what_the_builder_takes():
    thing = call(Thing, {"size": 3, "weights": [1, 2.5], "max-steps": 4}, "thing")
    assert thing == Thing(3, weights=(1.0, 2.5), max_steps=4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"siez": 3}, "Did you mean 'size'"),
        ({"size": 2.5}, "'size' must be a whole number, got 2.5"),
        ({"size": True}, "'size' must be a whole number, got True"),
        ({"size": 1, "kind": "c"}, "one of 'a', 'b'"),
        ({"size": 1, "weights": ["x"]}, "'weights' must be"),
        ({}, "needs 'size'"),
    ],
)
def test_a_wrong_option_is_named(options, words):
    with pytest.raises(BadOption) as caught:
        bound(Thing, options, "thing")
    assert words in str(caught.value)


def test_what_is_given_cannot_be_typed():
    assert THINGS.build("thing", {"kind": "b"}, size=2) == Thing(2, "b")
    with pytest.raises(BadOption, match="no option 'size'"):
        THINGS.build("thing", {"size": 1}, size=2)


def test_an_import_path_is_a_name():
    assert THINGS["fractions:Fraction"].build(1, 2) == 0.5
    with pytest.raises(BadOption, match="cannot be imported"):
        THINGS["no.such.module:Name"]


def test_a_typo_gets_the_nearest_name():
    with pytest.raises(BadOption, match="Did you mean 'thing'.*Choose from: thing"):
        THINGS["thign"]


def test_a_part_that_does_not_take_what_it_is_given_is_named():
    with pytest.raises(BadOption, match="must take the parameter 'root'"):
        THINGS.build("thing", {"size": 1}, root="somewhere")
