"""Attack the codes of a finished run and write down what leaked: scores.csv, leakage.csv, pictures."""

import csv
import io
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from fedpriv.attacks.code_catalogue import CODE_ATTACKS
from fedpriv.attacks.codes.knowledge import Decoded, Knowledge
from fedpriv.attacks.codes.masks import overlap
from fedpriv.catalogue import DATASETS
from fedpriv.codes.coders import INPUT
from fedpriv.codes.parties import labels_of, settings
from fedpriv.codes.release import Published
from fedpriv.errors import BadScenario
from fedpriv.files import write_text
from fedpriv.metrics.faces import Verifier, faces_like, verifier
from fedpriv.metrics.features import cosine_similarity, scatter
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.representation.knowledge import (
    curious_party,
    knowledge_of,
    noise_settings,
    oracle,
    true_masks,
)
from fedpriv.simulations.representation.pictures import save_pair
from fedpriv.simulations.representation.scoring import (
    Row,
    attribute_scores,
    sample_scores,
    victims_of,
)

log = logging.getLogger(__name__)
FACES = "olivetti"
FEATURES, ATTRIBUTE, OVERLAP, AS_IS = "features", "attribute", "mask-overlap", "take-as-is"
OF_MASKS = ("mask-reading", "mask-search", OVERLAP)


def spelled(table: Mapping[str, Any]) -> str:
    """`mask-overlap rate=0.5`: an attack and its options, as a name."""
    options = [f"{key}={value}" for key, value in table.items() if key != "name"]
    return " ".join([str(table["name"]), *options])


def applies(name: str, scenario: Scenario) -> bool:
    """Whether an attack has anything to do here: masks need masked noise, raw data the layer input."""
    if name in OF_MASKS:
        noise = noise_settings(scenario)
        return noise is not None and noise.epsilon > 0 and noise.share < 1
    if name == AS_IS:
        return settings(scenario).layer == INPUT
    return True


@lru_cache(maxsize=2)
def face_network(root: str, seed: int) -> Verifier:
    """The judge of faces, trained once for all variants."""
    return verifier(DATASETS.build(FACES, {}, root=root or None), seed)


class Assessment:
    """One run's attacks, scored; everything that reads a victim's samples is in here or in scoring."""

    def __init__(self, scenario: Scenario, folder: RunFolder) -> None:
        self.scenario, self.folder, self.chosen = scenario, folder, settings(scenario)
        self.masks = true_masks(scenario)
        self.faces = self.face_judge()
        self.scores: list[Row] = []
        self.leaks: list[Row] = []

    def face_judge(self) -> Verifier | None:
        if all(table.get("name") != FEATURES for table in self.chosen.attacks):
            return None
        return face_network(self.scenario.data.root, self.scenario.seed)

    def given(self, name: str) -> dict[str, Any]:
        """What a scenario cannot type: masks for the analysis, the network whose features are sought."""
        dataset = dataset_of(self.scenario)
        faces = self.faces
        if name == OVERLAP:
            return {"masks": self.masks}
        if name == FEATURES and faces is not None:
            return {"network": lambda x: faces(dataset.denormalised(x))}
        return {}

    def run(self, published: Published) -> None:
        for knows in knowledge_of(self.scenario, published):
            for table in self.chosen.attacks:
                if not isinstance(table.get("name"), str):
                    raise BadScenario(f"[[representation.attacks]] needs a name, got {table!r}.")
                if applies(table["name"], self.scenario):
                    self.one(table, knows)

    def one(self, table: Mapping[str, Any], knows: Knowledge) -> None:
        name = table["name"]
        options = {key: value for key, value in table.items() if key != "name"}
        attack = CODE_ATTACKS.build(name, options, **self.given(name))
        started = time.monotonic()
        found = attack(knows)
        seconds = round(time.monotonic() - started, 2)
        for party, guess in found.guesses.items():
            self.score(table, party, guess, found, seconds / len(found.guesses))

    def score(
        self, table: Mapping[str, Any], party: int, guess: Tensor, found: Decoded, seconds: float
    ) -> None:
        label, victims = spelled(table), victims_of(self.scenario, party)
        row: Row = {"attack": label, "node": party, "seconds": round(seconds, 2)}
        guess = guess[victims.places]
        dataset = dataset_of(self.scenario)
        if table["name"] == ATTRIBUTE:
            truth, classes = labels_of(self.scenario, table["attribute"])
            self.leaks.append(row | attribute_scores(guess, truth[victims.ids], classes))
            return
        if table["name"] == FEATURES and self.faces is not None:
            truth = self.faces(dataset.denormalised(victims.x))
            self.leaks.append(row | {"feature": float(cosine_similarity(guess, truth).mean())})
            return
        values = sample_scores(self.scenario, victims, guess, self.faces)
        means = {key: float(value.mean()) for key, value in values.items()}
        extra = found.extra.get(party, {})
        if "mask" in extra and party in self.masks:
            means["mask-overlap"] = overlap(extra["mask"], self.masks[party])
        self.leaks.append(row | means)
        for number in range(len(guess)):
            one = {key: float(value[number]) for key, value in values.items()}
            self.scores.append(
                {"run": self.scenario.name, "round": 1, "node": party, "attack": label}
                | {"sample": number, "plugins": plugins_of(self.scenario)}
                | one
            )
        if dataset.is_image:
            path = self.folder.attacks / label / f"1-{party}.png"
            save_pair(path, dataset.denormalised(victims.x), dataset.denormalised(guess))

    def identities(self, published: Published) -> Row:
        """How far persons are apart in codes: S_w, S_b and the LDA score (ARL table 3)."""
        if self.faces is None:
            return {}
        faces = DATASETS.build(FACES, {}, root=self.scenario.data.root or None)
        dataset = dataset_of(self.scenario)
        x = dataset.normalised(faces_like(faces, dataset.shape))
        query = oracle(self.scenario, curious_party(self.scenario), published.encoder)
        labels = faces.y_train.new_tensor([*faces.y_train.tolist(), *faces.y_test.tolist()])
        within, between = scatter(query(x), labels)
        return {
            "within": within,
            "between": between,
            "lda": between / within if within > 0 else float("inf"),
            "verifier-accuracy": self.faces.accuracy,
        }


def plugins_of(scenario: Scenario) -> str:
    return "+".join(spelled(spec.plain()) for spec in scenario.plugins) or "none"


def mean_rows(leaks: Sequence[Row]) -> list[Row]:
    """One row an attack: the mean over victims of every number."""
    grouped: dict[str, list[Row]] = {}
    for row in leaks:
        grouped.setdefault(row["attack"], []).append(row)
    found = []
    for attack, rows in grouped.items():
        keys = [key for key in rows[0] if key not in ("attack", "node")]
        found.append(
            {"attack": attack} | {key: sum(row[key] for row in rows) / len(rows) for key in keys}
        )
    return found


def table_text(rows: Iterable[Row]) -> str:
    """Rows as CSV, with every column that one of them has."""
    rows = list(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def assess(scenario: Scenario, folder: RunFolder) -> list[Row]:
    """Attack, score and write; one row an attack with what the run learned beside what leaked."""
    published = Published.of(folder.checkpoint_state())
    work = Assessment(scenario, folder)
    work.run(published)
    record = folder.rounds()[-1]
    keys = ("accuracy", "train-accuracy-clean", "train-f1", "train-mcc")
    learned = {key.removeprefix("train-"): record[key] for key in keys if key in record}
    learned["bytes"] = bytes_of(record)
    learned |= work.identities(published)
    rows = [{"plugins": plugins_of(scenario)} | learned | row for row in mean_rows(work.leaks)]
    if work.scores:
        write_text(folder.scores_file, table_text(work.scores))
    write_text(leakage_file(folder.path), table_text(rows))
    return rows


def bytes_of(record: Mapping[str, Any]) -> float:
    """All that was sent to learn something; codes of test samples only measure it."""
    besides = record.get("train-encoder-bytes", 0) + record.get("train-pool-bytes", 0)
    total = record["bytes-up"] + record["bytes-down"] + besides
    return total - record.get("train-evaluation-bytes", 0)


def leakage_file(path: Path) -> Path:
    return path / "leakage.csv"
