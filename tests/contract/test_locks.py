"""The locks of the image: versions of the whole lock, no extras of development, torch apart."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TORCH = re.compile(r"(torch|torchvision|triton|nvidia-.*|cuda-.*)$")


def locked(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"(?m)^([a-z0-9._-]+)==([^\s;]+)", text))


def test_an_image_has_versions_of_the_whole_lock_and_no_tools_of_development():
    whole, image = locked("requirements.lock"), locked("requirements-image.lock")
    assert image.items() <= whole.items(), "give `make lock`"
    assert not {"pytest", "mypy", "ruff", "mkdocs", "hypothesis", "mutmut"} & image.keys()
    assert {"torch", "flwr", "opacus", "ray"} <= image.keys()


def test_a_small_image_lacks_torch_and_cuda_alone():
    image, small = locked("requirements-image.lock"), locked("requirements-cpu.lock")
    gone = {name for name in image if TORCH.match(name)}
    assert small == {name: image[name] for name in image.keys() - gone}
    assert locked("requirements-torch.txt") == {n: image[n] for n in ("torch", "torchvision")}


def test_every_locked_package_has_a_hash():
    for name in ("requirements-image.lock", "requirements-cpu.lock"):
        blocks = re.split(r"(?m)^(?=\S)", (ROOT / name).read_text(encoding="utf-8"))[1:]
        assert blocks and all("--hash=sha256:" in block for block in blocks)


def test_make_installs_without_cuda_as_the_readme_says():
    """The command that README prints takes torch from that index, and the small lock."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (index,) = re.findall(r"make demo TORCH_INDEX=(\S+?)`", readme)
    fresh = ["VENV=fresh", "-o", "fresh/bin/uv"]  # nothing is there, and uv is not installed

    def said(*given: str) -> str:
        command = ["make", "--dry-run", *fresh, *given, "demo"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout

    small = said(f"TORCH_INDEX={index}")
    assert "--require-hashes requirements-cpu.lock" in small
    assert f'--index-url "{index}" --requirement requirements-torch.txt' in small
    assert "--require-hashes requirements.lock" in said()
