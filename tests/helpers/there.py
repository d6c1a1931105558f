"""Attacks and rounds of plugins, short, on a device of choice; and what each computed where."""

import inspect
from dataclasses import replace

from torch import nn
from worlds import CODES, UPDATES

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.clients.catalogue import row_of as plugin_row
from fedpriv.device import moved
from fedpriv.evidence.claims import Public
from fedpriv.metrics.perceptual import RandomFeatures
from fedpriv.progress import Told, go_on
from fedpriv.scenario import merged
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging import attacking
from fedpriv.simulations.judging.calls import Call
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.simulations.judging.held import own_samples
from fedpriv.simulations.judging.recordings import of_run

FEW_EPOCHS = {"representation": {"encoder-epochs": 1, "decoder-epochs": 1, "task-epochs": 1}}
# Options that make an attack short, given to those that have them.
SHORT = {
    "steps": 2,
    "finish": 1,
    "polish": 2,
    "controls": 1,
    "joint_steps": 1,
    "upstream_steps": 1,
    "restarts": 2,
    "candidates": 1,
    "pilot": 0.5,
    "attribute": "label",
}


class Flat(nn.Module):
    """Stands for a network of faces, which needs data that tests do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = RandomFeatures(1, width=2)

    def forward(self, x):
        return self.inner(x)[-1].flatten(1)


def options_of(name):
    taken = inspect.signature(row_of(name).build).parameters
    given = {key: value for key, value in SHORT.items() if key in taken}
    if row_of(name).whole:
        given.pop("candidates", None)  # an object there, a number elsewhere
    return given


def with_attribute(own: Public) -> Public:
    """The samples with an attribute, which made-up data do not have: brighter than most or not."""
    light = own.x.flatten(1).mean(1)
    return replace(own, attributes={"bright": (light > light.median()).long()})


def claims_on(device, name, folder):
    """The claims of one attack on what a folder recorded."""
    recording = replace(of_run(folder), device=device)
    attack = Attack(name=name, victims=2, options=options_of(name))
    label = f"{name} on {device.type}"
    row = row_of(name)
    method = None
    if "faces" in row.needs:
        method = ATTACKS.build(name, {}, network=Flat().to(device))
    elif "attributes" in row.needs:
        own = moved(with_attribute(own_samples(recording.scenario)), device)
        method = ATTACKS.build(name, {"attribute": "bright", "clients": 10}, own=own)
    if method is not None:
        chosen = recording.chosen(attack)
        call = Call(name, label, {}, {}, recording.scenario)
        works = list(attacking.works(recording, chosen, row, folder))
        todo = attacking.Todo(call, method, works, set())
        answers = attacking.answers(todo, recording, Told(go_on))
        failures = attacking.saved(todo, answers, attack, folder)
    else:
        failures = attacking.claimed(recording, attack, label, folder)
    assert failures == [], failures[0].why
    return list(folder.claims(label))


def round_of(name, options, run, device):
    tables = merged(CODES, FEW_EPOCHS) if "codes" in plugin_row(name).protects else UPDATES
    plugin = {"name": name, **options}
    tables = merged(tables, {"federation": {"clients": 2, "rounds": 1}})
    return run(tables | {"plugins": [plugin]}, device).checkpoint_state()


def network(*, norm: bool = False) -> nn.Sequential:
    middle = [nn.GroupNorm(2, 4)] if norm else []
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), *middle, nn.ReLU(), nn.Flatten(), nn.Linear(256, 5)
    )
