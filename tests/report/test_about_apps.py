"""The facts of somebody's app on the first screen: what was found, and what is not known."""

import re

import pytest

from fedpriv.report.about_apps import facts_in, shown
from fedpriv.report.page import page_of
from fedpriv.report.reading import read_material
from fedpriv.simulations.apps.attempts import Tried
from fedpriv.simulations.apps.concluding import verdict_on
from fedpriv.simulations.apps.handing import Handed
from fedpriv.simulations.apps.launching import Job
from fedpriv.simulations.judging.outcome import Outcome

APP = {
    "name": "theirs",
    "version": "1",
    "publisher": "somebody",
    "commit": None,
    "sha256": 64 * "a",
    "run-config": {},
    "data": [],
    "clients": 30,
    "clients-named-by": "nobody",
    "secure-aggregation": False,
    "facts": {
        "optimiser": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "local_steps": None,
        "batch_size": 32,
        "num_examples": 266,
        "mode": "train",
        "dropout": 0.0,
        "input_shape": [3, 32, 32],
        "mean": [0.5, 0.5, 0.5],
        "std": [0.5, 0.5, 0.5],
        "classes": 10,
    },
    "truth": {"model": "Net", "loss": ["cross-entropy"], "steps": [8, 9], "augmentation": []},
}


def test_what_was_found_is_said_and_what_is_unknown_is_named():
    text = "\n".join(facts_in(APP))
    for said in (
        "model Net, loss cross-entropy",
        "sgd, learning rate 0.1, momentum 0.9",
        "8, 9 steps on batches of 32; 266 samples behind an update",
        "train mode, no dropout; random augmentation: none",
        "inputs 3×32×32, mean 0.5, std 0.5; 10 classes",
        "12 of 13 facts known; unknown: local-steps",
    ):
        assert said in text
    assert "weight decay" not in text


def test_nothing_is_made_up_where_nothing_was_found():
    bare = facts_in({"facts": dict.fromkeys(APP["facts"]), "truth": {}})
    assert "0 of 13 facts known" in bare[-1]
    assert "model unknown, loss unknown" in bare[0]
    assert not any(word in " ".join(bare) for word in ("no dropout", "augmentation: none"))
    assert facts_in({}) == ()


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "unknown"), (0.1, "0.1"), (True, "True"), ([4, 5, 6, 9], "4 to 9"), ([], "unknown")],
)
def test_values_are_said_in_words(value, said):
    assert shown(value) == said


def test_the_first_screen_of_an_app_has_its_facts_and_one_word_about_samples(make_run):
    folder = make_run("theirs")
    folder.write_app(APP)
    steps = Outcome("sample", "psnr", 20.0, "leaks", 256, 8, 1, 0.0, 0.4, 0.1, 20.7, 12.8)
    alone = Handed(steps, 32)
    verdict_on(
        folder,
        APP,
        Tried(),
        whole=True,
        alone=alone,
        reasons=[],
        minutes=(5.0, 1.0),
        epsilon=None,
        job=Job("theirs", str(folder.path)),
        config={},
        clients=30,
        places=[(1, node) for node in range(30)],
        model="",
    )
    assert "--clients" not in folder.verdict()["next"]["command"]  # thirty took part
    text = page_of(read_material([folder.path]))
    head = text[: text.index("</header>")]
    assert "Found by looking" in head and "266 samples behind an update" in head
    card = re.search(
        r'<li class="(\w+)"><p class="claim">[^<]*(?:<(?!/p).*?)?sample</p>.*?</li>', head, re.S
    )
    assert card and card[1] == "grey"
    assert "Undecided" in card[0] and "1 of 256 above 20.0 dB" in card[0]
    assert "Not tested" not in card[0]
    assert "someone who is handed single steps of 32 samples" in head
