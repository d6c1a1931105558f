"""The sheet to sign: two pages whatever the names, the same bytes twice, and nothing left out."""

import re
import time

import pytest

from fedpriv.errors import BadFolder
from fedpriv.report.paper import BOTTOM, LEFT, RIGHT, TOP, Paper, width, wrapped
from fedpriv.report.reading import read_material
from fedpriv.report.sheet import laid_out, write_sheet

LONG = "a-name-without-end-" * 12


def words(paper: Paper) -> str:
    return " ".join(text.words for text in paper.texts)


def sheet(folder) -> Paper:
    write_sheet(folder.path)
    return laid_out(read_material([folder.path]).runs[0])


def test_the_sheet_has_what_somebody_signs(make_audit):
    folder = make_audit(gates=["psnr>20"])
    text = words(sheet(folder))
    made = folder.manifest()
    for told in (
        "Leaks",
        "3 of 29 (3 clients)",
        "2% to 27%",
        "30.0 dB",
        "11.0 dB",
        made["files"]["scenario.toml"]["sha256"],
        made["inputs"]["data"]["mnist-5k"],
        folder.environment()["date"],
        "curious server, sees updates",
        "no public data",
        "No ε is claimed",
        "Do not run it on private data as it is.",
        "1 threat models were not tested",
        "Signature",
    ):
        assert told in text, told
    assert "anonym" not in text.lower()


def test_two_writings_are_the_same_bytes(make_audit):
    folder = make_audit()
    first = write_sheet(folder.path).read_bytes()
    time.sleep(1.1)
    assert write_sheet(folder.path).read_bytes() == first
    assert len(re.findall(rb"/Type /Page\b", first)) == 2


def test_a_signature_is_not_given_without_knowing_who_was_asked(make_audit):
    """The sentence is cut to its room; what a server drew that is told more must not go with it."""
    text = words(sheet(make_audit(gates=["psnr>20"], told=["sample"])))
    assert "only a server was asked that is told more" in text and "It draws 3 samples" in text
    assert "told more" not in words(sheet(make_audit("other", gates=["psnr>20"])))


@pytest.mark.parametrize("many", [1, 60])
def test_nothing_spills_over_with_long_names_and_many_lines(make_audit, many):
    line = {"claim": LONG, "nist": LONG, "attacks": [LONG] * 3, "why": LONG, "command": ""}
    states = ("tested", "not tested", "does not apply")
    folder = make_audit(
        LONG[:60],
        asked=[{"attack": LONG}] * 6,
        coverage=[{**line, "threat": LONG, "state": state} for state in states] * many,
        sentence="Leaks: " + "very long " * 300,
        advice=LONG * 10,
        doubts=[LONG] * 30,
    )
    folder.write_card(
        {"unit": LONG, "neighbours": LONG, "epsilon": 3.0, "delta": 1e-5, "mechanism": LONG}
        | {"accountant": LONG, "trust": LONG, "outside": [LONG] * 4, "empirical": None}
        | {"computed": {"low": 2.9, "high": 2.9, "by": "PLD"}, "beside": []}
    )
    paper = sheet(folder)
    assert paper.pages == 2
    for text in paper.texts:
        assert text.x >= LEFT - 1 and text.end <= RIGHT + 1, text
        assert BOTTOM - 1 <= text.y <= TOP + 1, text


def test_a_card_of_differential_privacy_is_on_it(make_audit):
    folder = make_audit()
    card = {"unit": "one sample", "neighbours": "one added", "epsilon": 3.0, "delta": 1e-5}
    card |= {"mechanism": "DP-SGD", "accountant": "RDP", "trust": "clients", "outside": ["timing"]}
    card |= {"computed": {"low": 2.9, "high": 3.0, "by": "PLD"}, "empirical": None, "beside": []}
    folder.write_card(card)
    text = words(sheet(folder))
    for told in ("one sample", "3 at δ = 1e-05", "DP-SGD", "timing", "not tried", "cannot prove"):
        assert told in text, told


def test_only_a_verdict_can_be_signed(make_run, make_audit):
    with pytest.raises(BadFolder, match="holds no audit"):
        write_sheet(make_run().path)
    folder = make_audit()
    folder.write_verdict(folder.verdict() | {"victims": -1})
    with pytest.raises(BadFolder, match=r"not as verdict\.schema\.json says"):
        write_sheet(folder.path)


def test_lines_are_as_wide_as_their_room():
    text = "ε is what clients claim; " + "x" * 300
    lines = wrapped(text, 120.0, 8.0)
    assert all(width(line, 8.0) <= 120 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
