"""Fixtures: small made-up folders of runs and audits, in the format that fedpriv writes."""

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.truth import Truth
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables

MakeRun = Callable[..., RunFolder]
Asked = Sequence[dict[str, Any]]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A finished run: three rounds, two attacks on each client, PSNR as given."""

    def make(name: str = "plain", psnr: float = 30.0, clients: int = 3, **tables: Any) -> RunFolder:
        folder = RunFolder(tmp_path / name)
        attacks = [{"name": "dlg"}]
        folder.start(
            from_tables({"name": folder.path.name, "seed": 7, "attacks": attacks, **tables})
        )
        for number in (1, 2, 3):
            figures = {"accuracy": 0.3 * number, "loss": 1 / number, "seconds": 0.5}
            traffic = {"asked": 3, "clients": 3, "failed": [], "bytes-up": 100, "bytes-down": 100}
            folder.add_round({"round": number, **figures, **traffic})
        rows = []
        for attack in ("dlg", "adam+cosine"):
            for number in (1, 3):
                for node in range(clients):
                    value = psnr - min(node, 2) - (attack != "dlg")
                    row = {"run": name, "round": number, "node": node, "attack": attack}
                    rows.append(row | {"psnr": value, "ssim": value / 40, "victim": node})
                    x = torch.full((1, 1, 1, 6, 6), 0.3 * min(node, 2))
                    guess = {"labels": torch.zeros(1, 1), "loss": torch.zeros(1)}
                    found = Reconstruction(x=x + 0.05, names=(f"{number}-{node}",), **guess)
                    found.save(folder.claim_file(attack, f"{number}-{node}"))
                    same = {"x": x[0], "trained": x[0], "y": torch.zeros(1), "clean": 1.0}
                    about = {"indices": torch.tensor([node]), "round": number, "node": node}
                    Truth(**same, **about, added=0.0).save(folder.truth)
        folder.write_scores(rows)
        return folder

    return make


def example(schema: dict[str, Any], whole: dict[str, Any]) -> Any:
    """The plainest value that a schema allows."""
    if "$ref" in schema:
        return example(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [""])[0])
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][-1]
    if kind == "object":
        return {
            key: example(schema["properties"][key], whole) for key in schema.get("required", ())
        }
    plain = {"string": "", "array": [], "integer": schema.get("minimum", 0), "boolean": False}
    return plain.get(kind, None if kind == "null" else 0.0)


@pytest.fixture
def make_audit(make_run: MakeRun) -> Callable[..., RunFolder]:
    """The folder of an audit whose verdict is as the schema says; entries may be given."""
    text = files("fedpriv.report").joinpath("verdict.schema.json").read_text("utf-8")
    schema = json.loads(text)

    def question(**given: Any) -> dict[str, Any]:
        plain = example(schema["$defs"]["question"], schema)
        about = {"claim": "sample", "metric": "psnr", "bound": 20.0, "word": "leaks", "hits": 3}
        found = {"victims": 29, "clients": 3, "low": 0.02, "high": 0.27, "worst": 30.0}
        return (
            plain
            | about
            | found
            | {"blind": 11.0, "attack": "dlg", "limit": 0.1, "most": 0.3}
            | given
        )

    def make(
        name: str = "audit", asked: Sequence[dict[str, Any]] = ({},), **given: Any
    ) -> RunFolder:
        folder = make_run(name)
        threat = "curious server, sees updates"
        line = {"threat": threat, "nist": "data reconstruction", "attacks": ["dlg"], "command": ""}
        found = {
            "sentence": "Leaks: 3 of 29 samples of 3 clients come out above 20.0 dB PSNR.",
            "outcome": "leaks",
            "questions": [question(**one) for one in asked],
            "victims": 29,
            "clients": 3,
            "coverage": [
                {**line, "claim": "sample", "state": "tested", "why": ""},
                {**line, "claim": "member", "state": "not tested", "why": "no public data"},
            ],
            "next": {"what": "Take pruning:", "command": "fedpriv audit plain"},
            "rounds": {"trained": 3, "wanted": 3},
        }
        folder.write_verdict(example(schema, schema) | found | given)
        jsonschema.validate(folder.verdict(), schema)
        return folder

    return make
