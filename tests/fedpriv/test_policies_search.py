"""The race finds what scoring everything in full would have found, for less, and can be resumed."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from fedpriv.errors import BadFolder, BadOption, WorkFailed
from fedpriv.policies import Policy
from fedpriv.policies.journal import Journal, Task
from fedpriv.policies.policy_set import Candidate, PolicySet
from fedpriv.policies.race import completed, leaders, may_cross, stages
from fedpriv.policies.scorer import Scorer
from fedpriv.policies.search import Search, in_this_process, search
from fedpriv.report.search_figures import draw
from fedpriv.rng import generator


def scores(task):
    """Made-up scores: a policy's own level, an image's or a round's own, and a little noise."""
    kind = "accuracy" if task.kind == "accuracy" else "privacy"
    level = torch.rand((), generator=generator(0, kind, task.policy))
    rows = range(task.first, task.last)
    shared = [torch.rand((), generator=generator(0, kind, row)) for row in rows]
    noise = [torch.randn((), generator=generator(0, *task[:2], row)) * 0.05 for row in rows]
    return [float(level + a + b) for a, b in zip(shared, noise, strict=True)]


class Counted:
    """A spread that counts what it was asked for, and may stop in the middle."""

    def __init__(self, most=10**9):
        self.asked, self.most = 0, most

    def __call__(self, tasks):
        for task in tasks:
            self.asked += (task.last - task.first) * (0.3 if task.kind == "sketch" else 1)
            if self.asked > self.most:
                raise KeyboardInterrupt
            yield task, scores(task)


def test_stages_double_until_all_is_seen():
    assert stages(100, 8) == [8, 16, 32, 64, 100]
    assert stages(5, 8) == [5]


def test_who_may_still_win():
    columns = torch.rand(30, generator=generator(1, "columns"), dtype=torch.float64)
    noise = torch.randn((4, 30), generator=generator(1), dtype=torch.float64) * 0.01
    noise -= noise.mean(1, keepdim=True)
    values = torch.tensor([[0.1], [0.2], [0.2001], [0.9]]) + noise + columns
    assert leaders(values, 1, 2.0).tolist() == [0]
    assert leaders(values, 2, 2.0).tolist() == [0, 1]
    assert leaders(values, 4, 2.0).tolist() == [0, 1, 2, 3]
    alike = torch.cat([values[:1] + 0.1] * 6 + [values[:1]])
    assert leaders(alike + 0.1 * torch.sin(9 * columns * torch.arange(7)[:, None]), 1, 2.0)[0] == 6
    cut = float(values[1].mean())
    assert may_cross(values, cut, 2.0, moves_too=True).tolist() == [False, True, True, False]
    assert may_cross(values, cut, 4.0).tolist() == [True, True, True, False]
    assert may_cross(values[:, :1], float(values[1, 0]), 4.0).sum() == 2


def test_means_of_those_who_left_early_are_moved_to_where_the_others_went():
    found = completed([[1.0, 3.0, 8.0], [0.0, 4.0, 8.0], [5.0, 5.0]])
    assert found == pytest.approx([4.0, 4.0, 5.0 + 4.0 - 2.0])


def raced_and_full(**settings):
    ours, full = Counted(), Counted()
    return (
        (search(Search(**settings), ours, Journal({})), ours.asked),
        (search(Search(**settings, race=False), full, Journal({})), full.asked),
    )


def test_the_race_keeps_what_full_scoring_keeps_for_less():
    (ours, asked), (full, all_) = raced_and_full(candidates=120, keep=6, images=64, quantile=0.0)
    assert set(ours.kept) == set(full.kept)
    assert asked < all_ / 3


def test_few_rounds_tell_who_reaches_the_threshold():
    (ours, asked), (full, all_) = raced_and_full(candidates=120, keep=60, images=1, quantile=0.5)
    unlike = sum(
        (a.accuracy >= ours.threshold) != (b.accuracy >= full.threshold)
        for a, b in zip(ours.candidates, full.candidates, strict=True)
    )
    assert unlike <= 4
    assert asked < all_ / 2
    assert ours.threshold == pytest.approx(full.threshold, abs=0.03)


def test_what_is_kept_was_scored_in_full_and_passed_the_threshold():
    found = search(Search(candidates=60, keep=5, images=40), Counted(), Journal({}))
    rows = {row.policy: row for row in found.candidates}
    assert len(rows) == 60
    for name in found.kept:
        assert rows[name].images == 40 and rows[name].kept and rows[name].exact
        assert rows[name].accuracy >= found.threshold
    kept = [rows[name].privacy for name in found.kept]
    assert kept == sorted(kept)
    for row in rows.values():  # those that left early are estimated well
        truth = sum(scores(Task(row.policy, "privacy", 0, 40))) / 40
        assert row.privacy == pytest.approx(truth, abs=0.1)
    assert sum(row.kept for row in rows.values()) == 5


def by_number(tasks):
    """Scores in which every transformation has its own part, so that there is one to inherit."""
    for task in tasks:
        level = sum(Policy.parse(task.policy).members[0]) / 150
        shared = 0.1 if task.kind == "accuracy" else level
        yield task, [shared + 0.01 * (row % 3) for row in range(task.first, task.last)]


def test_bred_candidates_beat_as_many_drawn_ones():
    settings = Search(candidates=60, keep=6, images=16, quantile=0.0)

    def best(found):
        return [row.privacy for row in found.candidates if row.kept]

    drawn = search(settings, by_number, Journal({}))
    bred = search(replace(settings, evolve=True), by_number, Journal({}))
    assert len(bred.candidates) == len({row.policy for row in bred.candidates}) == 60
    assert sum(best(bred)) < 0.8 * sum(best(drawn))
    assert search(replace(settings, evolve=True), by_number, Journal({})) == bred


def test_bred_candidates_meet_the_threshold_of_those_that_were_drawn():
    settings = Search(candidates=50, keep=5, images=16, quantile=0.5, evolve=True)
    found = search(settings, Counted(), Journal({}))
    drawn = [row.accuracy for row in found.candidates[:20]]
    assert found.threshold == pytest.approx(torch.tensor(drawn).quantile(0.5).item(), abs=0.1)
    assert all(row.accuracy >= found.threshold for row in found.candidates if row.kept)


def test_bred_and_given_candidates_exclude_each_other():
    with pytest.raises(BadOption, match="evolve"):
        search(Search(evolve=True), Counted(), Journal({}), policies=[Policy.parse("3-1-7")])


def test_more_bred_candidates_than_there_are_policies_are_refused():
    with pytest.raises(BadOption, match="between 1 and 25"):
        search(Search(candidates=60, longest=1, evolve=True), Counted(), Journal({}))


def test_an_interrupted_search_goes_on_where_it_was(tmp_path):
    settings, path = Search(candidates=40, keep=4, images=32), tmp_path / "scores.jsonl"
    whole = Counted()
    expected = search(settings, whole, Journal({"seed": 0}))
    with pytest.raises(KeyboardInterrupt):
        search(settings, Counted(most=100), Journal({"seed": 0}, path))
    with path.open("a") as file:
        file.write('["3-1-7", "privacy", 0, 8, [0.1,')  # the line that was being written
    rest = Counted()
    assert search(settings, rest, Journal({"seed": 0}, path)) == expected
    assert rest.asked < whole.asked
    again = Counted()
    assert search(settings, again, Journal({"seed": 0}, path)) == expected
    assert again.asked == 0


def test_a_journal_of_other_settings_or_another_kind_is_refused(tmp_path):
    path = tmp_path / "scores.jsonl"
    Journal({"seed": 0}, path).add(Task("3", "privacy", 0, 1), [0.5])
    assert Journal({"seed": 0}, path).scores["privacy"] == {"3": [0.5]}
    with pytest.raises(BadFolder, match="seed was 0, now 1"):
        Journal({"seed": 1}, path)
    path.write_text('{"seed": 0}\n["3", "privacy", 0, 2, [0.5]]\n')
    with pytest.raises(BadFolder, match="line 2"):
        Journal({"seed": 0}, path)
    path.write_text("policies\n")
    with pytest.raises(BadFolder, match="no journal"):
        Journal({"seed": 0}, path)


def test_a_search_without_survivors_names_the_threshold_that_leaves_enough():
    settings = Search(candidates=20, keep=3, threshold=9.0, images=8)
    with pytest.raises(WorkFailed, match="0 of 20 candidates") as caught:
        search(settings, Counted(), Journal({}))
    best = float(str(caught.value).split(";")[1].split()[0])
    again = Search(candidates=20, keep=3, threshold=best, images=8)
    assert len(search(again, Counted(), Journal({})).kept) == 3


def test_fewer_survivors_than_wanted_are_all_kept(caplog):
    settings = Search(candidates=20, keep=15, quantile=0.5, images=8)
    assert len(search(settings, Counted(), Journal({})).kept) == 10
    assert "would leave 15" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"candidates": 0},
        {"keep": 0},
        {"candidates": 5, "keep": 6},
        {"quantile": 1.0},
        {"images": 0},
        {"doubts": 0},
    ],
)
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(BadOption):
        Search(**options)


def test_a_real_search_keeps_the_most_private_of_its_candidates():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 4))
    x = torch.randint(256, (24, 1, 12, 12), generator=generator(1), dtype=torch.uint8)
    parts = (model, model, x[:8], torch.arange(8) % 4, x.view(3, 8, 1, 12, 12))
    scorer = Scorer(*parts, (0.5,), (0.25,), points=3)
    settings = Search(candidates=12, keep=3, images=8, rounds=3)
    found = search(settings, in_this_process(scorer), Journal({}))
    for name in found.kept:
        mean = sum(scorer.privacy(Policy.parse(name), 0, 8)) / 8
        row = next(row for row in found.candidates if row.policy == name)
        assert row.privacy == pytest.approx(mean, abs=1e-5)
    others = [r.privacy for r in found.candidates if r.exact and not r.kept]
    assert max(r.privacy for r in found.candidates if r.kept) <= min(others)


@pytest.fixture
def result():
    rows = [
        Candidate("3-1-7", -1.2, 10, 0.2, 100, True, True),
        Candidate("3-18-28", -1.3, 10, 0.25, 100, True, True),
        Candidate("43-18-18", -1.1, 4, 0.3, 100, True, True),
        Candidate("0", -1.4, 4, 0.6, 16, False, False),
        Candidate("5", -9.0, 1, 0.7, 8, False, False),
    ]
    kept = tuple(row.policy for row in rows if row.kept)
    return PolicySet(kept, "cifar100", "resnet20", -1.5, tuple(rows), {"seed": 1}, {"seconds": 2.0})


def test_the_result_is_read_back_as_written(result, tmp_path):
    path = tmp_path / "policies.json"
    result.save(path)
    assert PolicySet.load(path) == result
    assert json.loads(path.read_text())["hybrid"] == str(result.hybrid()) == "3-1-7+43-18-18"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"policies": ["3-1-77"], "data": "a", "model": "b", "threshold": 0}', "null"],
)
def test_what_is_no_result_is_refused(text, tmp_path):
    path = tmp_path / "policies.json"
    with pytest.raises(BadFolder, match="cannot be read"):
        PolicySet.load(path)
    path.write_text(text)
    with pytest.raises(BadFolder, match="no result"):
        PolicySet.load(path)


def test_the_figures_are_pictures(result, tmp_path):
    singles = replace(result, candidates=result.candidates[3:])
    for found, path in ((result, tmp_path / "cloud.png"), (singles, tmp_path / "bars.png")):
        draw(found, path)
        assert path.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "cloud.png").read_bytes() != (tmp_path / "bars.png").read_bytes()
