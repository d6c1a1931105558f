"""A pretend accelerator in this process, and small runs recorded on the CPU to be attacked there.

torch must know the device before it differentiates anything, so that it is made known while tests
are collected. Nothing uses it unless it is asked for by name.
"""

import pretend
import pytest
import torch
from shows import quiet
from there import FEW_EPOCHS
from worlds import CODES, UPDATES

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.federation.run import simulate

DEVICE = pretend.install()


@pytest.fixture(scope="session")
def there() -> torch.device:
    return DEVICE


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A scenario's tables -> the folder of its run."""

    def ran(tables, device="cpu") -> RunFolder:
        scenario = from_tables(merged(tables, {"federation": {"device": device}}))
        folder = RunFolder(tmp_path_factory.mktemp("run") / "run")
        return simulate(scenario, folder, quiet())

    return ran


@pytest.fixture(scope="session")
def updates(run) -> RunFolder:
    """Two rounds of three clients with one sample each, augmented by a policy."""
    tables = {"plugins": [{"name": "augment", "policy": "4-5"}], "attacks": [{"name": "dlg"}]}
    return run(merged(UPDATES, {"federation": {"clients": 3}}) | tables)


@pytest.fixture(scope="session")
def codes(run) -> RunFolder:
    """Codes of three parties with masked noise."""
    tables = {"plugins": [{"name": "ars"}], "attacks": [{"name": "decoder"}]}
    return run(merged(CODES, FEW_EPOCHS) | tables)


@pytest.fixture(scope="session")
def game(run) -> RunFolder:
    """Codes of an encoder that was trained against a decoder, which its party keeps."""
    tables = {"plugins": [{"name": "ran"}], "attacks": [{"name": "decoder"}], "keep-truth": True}
    return run(merged(CODES, FEW_EPOCHS) | tables)


@pytest.fixture(scope="session")
def inputs(run) -> RunFolder:
    """Parties that share their samples themselves, with noise."""
    short = merged(FEW_EPOCHS, {"representation": {"layer": "input"}})
    tables = {"plugins": [{"name": "noisy"}], "attacks": [{"name": "take-as-is"}]}
    return run(merged(CODES, short) | tables)
