"""The README's picture: digits, and what a server draws of them without and with a defence.

`make picture` runs three small federations and writes docs/picture.png. In each of them ten clients
share one step on one digit. The attacker knows which defence there is.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.font_manager import findfont
from PIL import Image, ImageDraw, ImageFont

from fedpriv import run
from fedpriv.evidence.claims import Reconstruction, load_claim
from fedpriv.runfolder import RunFolder

PICTURE = Path(__file__).parent / "picture.png"
ONE_STEP = {"training.batch-size": 1, "training.local-steps": 1, "federation.rounds": 1}
ROWS = (  # words, plugins, the attack that knows of them
    ("no defence", [], "strongest"),
    ("pruning, 95 % kept back", [{"name": "pruning", "fraction": 0.05}], "pruning-aware"),
    ("noise, σ = 0.1", [{"name": "noise", "scale": 0.1}], "noise-aware"),
)
Pair = tuple[np.ndarray, np.ndarray, float]
SIDE, EDGE, WORDS = 84, 6, 250  # pixels of a digit, between digits, of the words on the left


def reconstructed(plugins: list[dict[str, object]], attack: str) -> list[Pair]:
    """Original and reconstruction of every client's digit, with its PSNR."""
    asked = {**ONE_STEP, "plugins": plugins, "attacks": [{"name": attack}]}
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(run("quickstart", settings=asked, out=Path(place) / "run").folder)
        scores = folder.scores().set_index("node")
        found = []
        for node in scores.index:
            claim = load_claim(folder.claim_file(attack, f"1-{node}"))
            truth = folder.truth_of(f"1-{node}")
            assert isinstance(claim, Reconstruction) and truth is not None
            original = claim.as_pixels(truth.x)[0, 0].numpy()
            found.append((original, claim.pixels[0][0, 0].numpy(), float(scores["psnr"][node])))
    return found


def tile(pixels: np.ndarray) -> Image.Image:
    grey = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    return Image.fromarray(grey).resize((SIDE, SIDE), Image.Resampling.NEAREST)


def main() -> int:
    rows = [(words, reconstructed(plugins, attack)) for words, plugins, attack in ROWS]
    count = len(rows[0][1])
    width, height = WORDS + count * (SIDE + EDGE) + EDGE, (len(rows) + 1) * (SIDE + EDGE) + EDGE
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    font = findfont("DejaVu Sans")
    large, small = ImageFont.truetype(font, 17), ImageFont.truetype(font, 14)
    lines = [("what clients have", "ten private digits", [pair[0] for pair in rows[0][1]])]
    for words, pairs in rows:
        assert all(np.array_equal(p[0], q[0]) for p, q in zip(pairs, rows[0][1], strict=True))
        median = np.median([pair[2] for pair in pairs])
        lines.append((words, f"server's picture, {median:.0f} dB", [pair[1] for pair in pairs]))
    for y, (words, below, pictures) in enumerate(lines):
        top = EDGE + y * (SIDE + EDGE)
        draw.text((EDGE, top + 22), words, "black", large)
        draw.text((EDGE, top + 47), below, "#555555", small)
        for x, pixels in enumerate(pictures):
            sheet.paste(tile(pixels), (WORDS + x * (SIDE + EDGE), top))
    sheet.quantize(64).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
