"""Somebody else's parts, one small file each, work everywhere without another edit.

Named by `pkg.module:Name` and by entry point, a plugin, an attack on updates, one on codes,
a metric, a model and a data set appear in lists, in a run, in a sweep, in an audit and on the page.
"""

from dataclasses import dataclass

import pytest
from worlds import CODES, UPDATES

from fedpriv.runfolder import RunFolder
from fedpriv.simulations.api import load
from fedpriv.sweepfolder import SweepFolder

STRIPES = '''
import torch

from fedpriv.data.dataset import Dataset


def stripes(root: str | None = None, train: int = 48) -> Dataset:
    """stripes of random widths"""
    draw = torch.Generator().manual_seed(5)
    y = torch.arange(train + 24) % 3
    x = torch.randint(0, 255, (len(y), 1, 8, 8), generator=draw).to(torch.uint8)
    x[torch.arange(len(y)), 0, y] = 255
    return Dataset(
        name="stripes", x_train=x[:train], y_train=y[:train], x_test=x[train:], y_test=y[train:],
        classes=3, mean=(0.5,), std=(0.3,),
    )
'''
NET = '''
from torch import nn


def smooth(channels: int, size: int, classes: int, width: int = 12) -> nn.Module:
    """one smooth layer"""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * size * size, width),
        nn.Sigmoid(),
        nn.Linear(width, classes),
    )
'''
ROUNDING = '''
from dataclasses import dataclass

from fedpriv.clients.plugin import PrivacyPlugin


@dataclass(frozen=True)
class Rounding(PrivacyPlugin):
    """rounds what is shared"""

    protects = ("update", "codes")
    neutral = {"step": 0.0}
    strong = {"step": 1.0}

    step: float = 1e-4

    def rounded(self, values):
        return (values / self.step).round() * self.step if self.step else values

    def on_update(self, update, job):
        return {name: self.rounded(values) for name, values in update.items()}

    def on_representation(self, z, x, job):
        return self.rounded(z)
'''
# Both attacks know which public collection the samples come from, and look up the one that fits.
PEEK = '''
import torch
from torch.nn.functional import cosine_similarity

from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import stack

from acme.stripes import stripes


class Peek:
    """looks updates up"""

    knows = ("rounding", "acme.rounding:Rounding")

    def __init__(self, most: int = 48) -> None:
        self.most = most

    def __call__(self, seen, progress):
        victims, data = stack(seen), stripes()
        x, y = data.normalised(data.x_train)[: self.most], data.y_train[: self.most]
        flat = lambda found: torch.cat([v.flatten(1) for v in found.values()], dim=1)
        wanted, V = flat(victims.gradient), len(victims)
        fits = torch.stack([
            cosine_similarity(flat(victims.gradient_at(
                one.expand(V, 1, *one.shape), label.expand(V, 1))).detach(), wanted)
            for one, label in zip(x, y)
        ], dim=1)
        best = fits.topk(victims.slots, dim=1).indices
        facts = victims.facts
        return Reconstruction(
            x=x[best], labels=y[best], loss=-fits.amax(1), names=victims.names,
            mean=facts.mean, std=facts.std, partial=not progress(1.0, 0.0),
        )
'''
LOOKUP = '''
import torch

from acme.stripes import stripes


class Lookup:
    """looks codes up"""

    sees = "codes"
    by = "curious party"
    knows = ("rounding", "acme.rounding:Rounding")

    def __call__(self, knows, progress):
        data = stripes()
        x = data.normalised(data.x_train)
        codes = knows.query(x).flatten(1)
        found = {
            who: x[torch.cdist(z.flatten(1), codes).argmin(1)] for who, z in knows.shared.items()
        }
        return knows.telling(progress).claimed(found)
'''
GAP = '''
from fedpriv.metrics.metric import Metric


def widest(scale: float = 1.0) -> Metric:
    """the widest gap of a pixel"""
    compare = lambda guess, truth: scale * (guess - truth).abs().flatten(1).amax(1)
    return Metric(compare, "low", said="widest gap", bound=0.01)
'''
FILES = {
    "stripes": STRIPES,
    "net": NET,
    "rounding": ROUNDING,
    "peek": PEEK,
    "lookup": LOOKUP,
    "gap": GAP,
}


@dataclass(frozen=True)
class Names:
    """What people type for each part."""

    data: str
    model: str
    plugin: str
    peek: str
    lookup: str
    metric: str

    def of(self, world):
        """A small world in which the data, the model and the plugin are somebody else's."""
        return {
            **world,
            "data": {"name": self.data},
            "model": {"name": self.model, "width": 10},
            "plugins": [{"name": self.plugin, "step": 1e-5}],
            "gate": {self.metric: 0.01},
        }

    @staticmethod
    def label(attack):
        return attack.replace(":", ".")


PATHS = Names(
    "acme.stripes:stripes",
    "acme.net:smooth",
    "acme.rounding:Rounding",
    "acme.peek:Peek",
    "acme.lookup:Lookup",
    "acme.gap:widest",
)
POINTS = Names("stripes", "smooth-net", "rounding", "peek", "lookup", "widest-gap")


@pytest.fixture(params=[PATHS, POINTS], ids=["path", "entry-point"])
def names(request, somebody):
    """The parts installed; in the first case without entry points."""
    points = {
        "data": {POINTS.data: PATHS.data},
        "models": {POINTS.model: PATHS.model},
        "plugins": {POINTS.plugin: PATHS.plugin},
        "attacks": {POINTS.peek: PATHS.peek, POINTS.lookup: PATHS.lookup},
        "metrics": {POINTS.metric: PATHS.metric},
    }
    somebody("acme", FILES, points if request.param is POINTS else None)
    return request.param


def assert_judged(scores, page, names, attack):
    """The attack's success, what it knows, the metric and its blind guess stand everywhere."""
    own = scores[scores["attack"] == names.label(attack)]
    assert len(own) and set(own["knows"]) == {names.plugin}
    assert (own[names.metric] < 0.01).any() and (own[f"{names.metric}-blind"] > 0.1).all()
    head, *rows = page["Leakage by attack and metric"]
    (row,) = [
        row
        for row in rows
        if row[0] == names.label(attack)
        and row[head.index("metric")].startswith("widest gap (bound 0.010)")
        and ("batch" not in head or row[head.index("batch")].partition(",")[0] == "1")
    ]
    assert float(row[head.index("worst")]) < 0.01 < float(row[head.index("blind guess")])


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("data", "data"),
        ("models", "model"),
        ("plugins", "plugin"),
        ("attacks", "peek"),
        ("attacks", "lookup"),
        ("metrics", "metric"),
    ],
)
def test_it_is_listed(fedpriv, names, kind, part):
    name = getattr(names, part)
    code, out, _ = fedpriv("list", kind, *([name] if names is PATHS else []))
    said = {"data": "stripes of random widths", "plugin": "rounds what is shared"}
    assert code == 0 and name in out and said.get(part, name) in out
    if kind == "attacks":
        assert "rounding" in out  # what it knows


def test_in_a_run_on_updates_it_decides_the_verdict(fedpriv, file, tables_on, names, tmp_path):
    attacks = [{"name": names.peek, "rounds": "last"}, {"name": "linear", "rounds": "last"}]
    path = file(names.of(UPDATES), attacks=attacks)
    code, _, err = fedpriv("run", path, "--out", tmp_path / "R")
    assert code == 1 and names.metric in err, err
    page = tmp_path / "R" / "report.html"
    assert_judged(RunFolder(tmp_path / "R").scores(), tables_on(page), names, names.peek)
    assert load(tmp_path / "R").verdict.light == "red"
    assert f"{names.plugin}(step=1e-05)" in page.read_text()


def test_in_a_run_on_codes_it_decides_the_verdict(fedpriv, file, tables_on, names, tmp_path):
    attacks = [{"name": names.lookup}, {"name": "decoder"}]
    path = file(names.of(CODES), attacks=attacks)
    code, _, err = fedpriv("run", path, "--out", tmp_path / "R")
    assert code == 1 and names.metric in err, err
    scores = RunFolder(tmp_path / "R").scores()
    assert_judged(scores, tables_on(tmp_path / "R" / "report.html"), names, names.lookup)
    assert not (scores[scores["attack"] == "decoder"][names.metric] < 0.01).any()


def test_a_metric_that_only_the_command_line_names_decides_too(fedpriv, file, names, tmp_path):
    world = {**names.of(UPDATES), "gate": {}}
    path = file(world, attacks=[{"name": names.peek}])
    gate = f"{names.metric}<0.01"
    code, _, err = fedpriv("run", path, "--out", tmp_path / "R", "--fail-if", gate)
    assert code == 1 and gate in err, err
    code, _, err = fedpriv("attack", tmp_path / "R", "--attack", names.peek, "--fail-if", gate)
    assert code == 1 and gate in err, err


def test_a_sweep_picks_the_informed_attack(fedpriv, file, tasks_here, tables_on, names, tmp_path):
    sweep_decides(fedpriv, file, tables_on, names, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("names", [POINTS], indirect=True, ids=["entry-point"])
def test_a_sweep_on_ray_picks_the_informed_attack(
    fedpriv, file, tables_on, names, tmp_path, monkeypatch
):
    """Other processes than this one: they find the parts because their package is installed."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site-packages"))
    sweep_decides(fedpriv, file, tables_on, names, tmp_path, "--workers", 1)


def sweep_decides(fedpriv, file, tables_on, names, tmp_path, *options):
    world = names.of(UPDATES)
    plugins = world.pop("plugins")
    named = [] if names is POINTS else [names.peek]  # an entry point is found by itself
    path = file(
        world,
        defences=[{"name": "none"}, {"name": "rounded", "plugins": plugins}],
        sweep={"attacks": ["linear", *named], "victims": 2, "at": 1.0},
    )
    code, _, err = fedpriv("sweep", path, "--out", tmp_path / "S", *options)
    assert code == 1 and "rounded" in err, err
    results = SweepFolder(tmp_path / "S").results()
    informed = results[results["knows"] != ""]
    assert list(informed["attack"]) == [names.peek]
    assert list(informed["defence"]) == ["rounded"] and list(informed["knows"]) == [names.plugin]
    assert (informed[names.metric] < 0.01).all()
    assert (informed[f"{names.metric}-blind"] > 0.1).all()
    page = tables_on(tmp_path / "S" / "report.html")
    head, *rows = page["Settings, least leakage first"]
    (row,) = [row for row in rows if row[0] == "rounded"]
    assert "worst widest gap, does not know" in head
    assert (
        float(row[head.index("knows the defence")]) < 0.01 < float(row[head.index("blind guess")])
    )
    head, *rows = page["The worst victim over all values"]
    assert names.peek in rows[0] and "blind guess" in head


def test_an_audit_picks_the_informed_attack(fedpriv, file, tables_on, names, tmp_path):
    named = [] if names is POINTS else [{"name": names.peek}]
    strong = {"name": "coarse", "plugins": [{"name": names.plugin, "step": 2e-5}]}
    path = file(names.of(UPDATES), attacks=named, defences=[strong], federation={"rounds": 1})
    code, _, err = fedpriv("audit", path, "--work", 400, "--workers", 1, "--out", tmp_path / "A")
    assert code == 1, err
    scores = RunFolder(tmp_path / "A").scores()
    assert_judged(scores, tables_on(tmp_path / "A" / "report.html"), names, names.peek)
    (tried,) = RunFolder(tmp_path / "A").verdict()["defences"]
    assert tried["name"] == "coarse" and tried["word"] == "leaks"
