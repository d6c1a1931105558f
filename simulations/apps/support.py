"""What an app trains with, read off its imports, and why some apps cannot be judged yet."""

import ast
from collections.abc import Iterator
from pathlib import Path

from fedpriv.errors import BadInput
from fedpriv.simulations.apps.source import Source

TREES = ("xgboost", "lightgbm", "catboost")
OTHERS = ("tensorflow", "keras", "jax", "flax", "mlx", "sklearn", "pandas", "numpy")
TEXT = ("transformers", "peft", "trl", "sentence_transformers")


class NotSupported(BadInput):
    """An app that no attack of ours can be tried on, found before anything is trained."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Not supported yet: {why}")


def imports_of(source: Source) -> set[str]:
    """The packages that the app's files import."""
    return {name for path in source.files() if path.suffix == ".py" for name in imported(path)}


def imported(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"The app's file '{path}' cannot be read as Python: {error}.") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def check_supported(source: Source) -> None:
    """NotSupported for apps of trees, of text, or of another library than PyTorch."""
    found = imports_of(source)
    trees = [name for name in TREES if name in found]
    if trees:
        raise NotSupported(
            f"the app shares trees ({trees[0]}), and attacks here are on the weights of PyTorch "
            "models. Nothing was trained. A tree shows its clients' split values: treat it as "
            "private data."
        )
    text = [name for name in TEXT if name in found]
    if text:
        raise NotSupported(
            f"the app trains language models ({text[0]}), and attacks here take pictures, signals "
            "and tables. Nothing was trained."
        )
    if "torch" not in found and "pytorch_lightning" not in found and "lightning" not in found:
        other = next((name for name in OTHERS if name in found), "another library")
        raise NotSupported(
            f"the app trains with {other}, and attacks here are on PyTorch models. Nothing was "
            "trained."
        )
