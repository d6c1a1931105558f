"""Data sets from the hub, through flwr-datasets."""

import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np

from fedpriv.data.sources import Source
from fedpriv.errors import BadData


def _offline_unless_reachable(name: str) -> None:
    """Let the hub's library look into its cache alone if its host is unknown here.

    It would try for half a minute otherwise. A proxy may know hosts that this machine does not.
    """
    proxied = any(os.environ.get(key) for key in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"))
    if proxied or Path(name).is_dir() or "HF_HUB_OFFLINE" in os.environ:
        return
    endpoint = os.environ.get("HF_ENDPOINT")
    if not endpoint:
        from huggingface_hub.constants import ENDPOINT as endpoint
    try:
        socket.getaddrinfo(urlparse(endpoint).hostname, 443)
    except OSError:
        from huggingface_hub import constants

        os.environ["HF_HUB_OFFLINE"] = "1"
        constants.HF_HUB_OFFLINE = True


def splits(source: Source, names: tuple[str, ...]) -> list[Any]:
    """The splits called `names` of the hub's copy, as Hugging Face data sets in their own order."""
    if not source.hub:
        raise source.missing("no root, no file in the folder")
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    _offline_unless_reachable(source.hub)
    from flwr_datasets import FederatedDataset  # seconds to import

    try:
        federated = FederatedDataset(
            dataset=source.hub, subset=source.subset, partitioners={}, shuffle=False
        )
        return [federated.load_split(name) for name in names]
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise source.missing(f"no file; the hub says: {reason}") from error


def column(table: Any, name: str) -> np.ndarray:
    """One column of labels as int64."""
    if name not in table.column_names:
        raise BadData(
            f"The hub's data set has no column '{name}'; it has {', '.join(table.column_names)}."
        )
    try:
        return np.asarray(table[name][:], dtype=np.int64)
    except (TypeError, ValueError) as error:
        raise BadData(f"The hub's column '{name}' does not hold labels: {error}.") from error


def pictures(table: Any, name: str, side: int, mode: str) -> np.ndarray:
    """One column of images as uint8 (N, H, W) or (N, H, W, 3), resized to `side` if they differ."""
    if name not in table.column_names:
        raise BadData(
            f"The hub's data set has no column '{name}'; it has {', '.join(table.column_names)}."
        )
    out = []
    for picture in table[name]:
        picture = picture.convert(mode)
        if picture.size != (side, side):
            picture = picture.resize((side, side), resample=1)  # 1 is Lanczos
        out.append(np.asarray(picture))
    return np.stack(out)
