"""What is published, and rows aligned by id."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedpriv.codes.parties import columns_of, holding_of, labels_of, outsider_rows, task_labels
from fedpriv.codes.release import Published, Shared, places, pooled, side_by_side
from fedpriv.errors import BadInput, BadObservation
from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.release import Release
from fedpriv.scenario import Scenario, from_tables


def shared(count: int = 3, **parts) -> Shared:
    parts = {"y": torch.zeros(count, 1, dtype=torch.long)} | parts
    return Shared(torch.randn(count, 2), torch.randn(2, 2), torch.arange(2), **parts)


def test_public_models_are_read_back_and_hold_no_codes():
    before = Published({"fc.weight": torch.ones(2)}, {"label": {"0.bias": torch.zeros(3)}})
    after = Published.of(before.state() | {"unrelated": torch.zeros(1)})
    assert after.encoder.keys() == {"fc.weight"} and after.classifiers["label"].keys() == {"0.bias"}
    assert before.state().keys() == {"encoder/fc.weight", "task/label/0.bias"}


def test_what_a_party_shared_is_read_back():
    for before in (shared(), shared(ids=torch.arange(3), encoder={"w": torch.zeros(1)})):
        after = Shared.of(before.state())
        assert torch.equal(after.z, before.z) and torch.equal(after.y, before.y)
        assert (after.ids is None) == (before.ids is None) and after.encoder == before.encoder


def test_a_release_is_written_and_read_back_as_evidence_of_codes(tmp_path):
    own = shared(ids=torch.arange(3))
    before = Release(shared=own, sent={"fc.weight": torch.ones(2)}, round=2, node=1)
    path = before.save(tmp_path)
    assert path == tmp_path / "2-1.safetensors"
    [after], bad = load_folder(tmp_path)
    assert not bad and isinstance(after, Release) and after.name == "2-1"
    assert torch.equal(after.shared.z, own.z) and torch.equal(after.shared.ids, own.ids)
    assert after.encoder.keys() == {"fc.weight"}


def test_a_party_that_published_its_own_encoder_is_read_by_that_one():
    own = {"w": torch.zeros(1)}
    assert Release(shared=shared(encoder=own), sent={"other": torch.ones(1)}).encoder == own


def test_a_damaged_release_is_named_and_left_out(tmp_path):
    Release(shared=shared(), round=1, node=0).save(tmp_path)
    path = Release(shared=shared(), round=1, node=1).save(tmp_path)
    path.with_suffix(".json").write_text('{"sees": "codes", "round": 1}')
    good, [(where, why)] = load_folder(tmp_path)
    assert [seen.name for seen in good] == ["1-0"]
    assert where == path and "1-1.safetensors is no release of codes" in str(why)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"z": torch.zeros(2, 2)}, "lack test"),
        (shared(y=torch.zeros(5, 1)).state(), "3 codes came with 5 labels"),
        (shared().state() | {"z": torch.full((3, 2), float("nan"))}, "NaN"),
        (shared().state() | {"test": torch.zeros(2, 3)}, "test samples"),
    ],
)
def test_codes_that_do_not_fit_are_refused(state, why):
    with pytest.raises(BadObservation, match=why):
        Shared.of(state)


def test_a_pool_is_all_parties_below_each_other():
    a, b = shared(3), shared(4)
    z, y = pooled([a, b])
    assert torch.equal(z, torch.cat([a.z, b.z])) and y.shape == (7, 1)


@settings(max_examples=25)
@given(
    lists=st.lists(
        st.lists(st.integers(0, 12), unique=True, min_size=6, max_size=13), min_size=1, max_size=3
    )
)
def test_rows_are_aligned_whatever_their_order_and_whoever_lacks_some(lists):
    common = sorted(set.intersection(*map(set, lists)))
    ids = [torch.tensor(values) for values in lists]
    if not common:
        with pytest.raises(BadInput, match="no row in common"):
            places(ids)
        return
    codes = [own[:, None].float() * 10 for own in ids]
    rows, where = side_by_side(codes, ids)
    assert rows.tolist() == [[10.0 * value] * len(lists) for value in common]
    assert all(own[place].tolist() == common for own, place in zip(ids, where, strict=True))


def test_an_id_listed_twice_is_an_error():
    with pytest.raises(BadInput, match="Party 1 lists an id twice"):
        places([torch.tensor([1, 2]), torch.tensor([1, 1])])


def vertical(**representation) -> Scenario:
    return from_tables(
        {
            "seed": 5,
            "data": {"name": "synthetic", "options": {"kind": "table", "size": 8}},
            "model": {"name": "mlp"},
            "federation": {"clients": 3, "strategy": "vertical"},
            "representation": {"curious-samples": 100, **representation},
        }
    )


def test_columns_are_divided_and_no_party_holds_the_outsiders_rows():
    scenario = vertical(missing=0.25)
    columns = torch.cat([columns_of(scenario, party) for party in range(3)])
    assert sorted(columns.tolist()) == list(range(8))
    outside = set(outsider_rows(scenario).tolist())
    held = [holding_of(scenario, party).ids for party in range(3)]
    assert all(not outside & set(ids.tolist()) for ids in held)
    assert all(len(ids) == round(0.75 * 412) for ids in held)
    assert held[0].tolist() != held[1].tolist()


def test_an_unknown_task_is_named_with_the_choices():
    scenario = vertical(tasks=["gender"])
    with pytest.raises(BadInput, match="no attribute 'gender'; choose from: label"):
        task_labels(scenario)
    assert labels_of(scenario, "label")[1] == 4
