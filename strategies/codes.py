"""What a party's codes must look like before a server builds anything from them."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from flwr.app import ArrayRecord

from fedpriv.codes.parties import coder_of, settings, task_labels
from fedpriv.codes.release import ENCODER, IDS, TEST, TEST_IDS, Y, Z, under
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.screening import said, why_odd_array
from fedpriv.state import State
from fedpriv.wire import decoded

CODE, NUMBER = np.dtype(np.float32), np.dtype(np.int64)


@dataclass(frozen=True)
class Expected:
    """The shape of one code, how many there can be, and the encoder that goes with them."""

    code: tuple[int, ...]
    tasks: int
    rows: int  # samples in the training set: nobody has more
    tests: int
    encoder: State

    @classmethod
    def of(cls, scenario: Scenario, party: int, encoder: State) -> Self:
        """What a party of the scenario may share."""
        chosen = settings(scenario)
        return cls(
            coder_of(scenario, party).code(chosen.layer),
            len(chosen.tasks),
            len(dataset_of(scenario).y_train),
            len(task_labels(scenario, "test")[0]),
            encoder,
        )


def why_odd_codes(record: ArrayRecord, expected: Expected) -> str | None:
    """What is wrong with shared codes, in words; sizes come before anything is decoded."""
    rows: dict[str, tuple[np.dtype, tuple[int, ...], int]] = {
        Z: (CODE, expected.code, expected.rows),
        TEST: (CODE, expected.code, expected.tests),
        TEST_IDS: (NUMBER, (), expected.tests),
        Y: (NUMBER, (expected.tasks,), expected.rows),
        IDS: (NUMBER, (), expected.rows),
    }
    encoder = under(ENCODER, expected.encoder)
    if len(record) > len(rows) + len(encoder):
        return f"it carries {len(record)} arrays, at most {len(rows) + len(encoder)} are read"
    for name, array in record.items():
        if name in rows:
            dtype, shape, most = rows[name]
            why = why_odd_array(array, dtype, shape, most_rows=most)
        elif name in encoder:
            value = encoder[name]
            why = why_odd_array(array, value.numpy().dtype, tuple(value.shape))
        else:
            why = "is not what codes are made of"
        if why is not None:
            return f"'{said(name, 40)}' {why}"
    for name, most in ((IDS, expected.rows), (TEST_IDS, expected.tests)):
        ids = decoded(record[name]) if name in record else np.zeros(0, NUMBER)
        if ids.size and (ids.min() < 0 or ids.max() >= most):
            return f"'{name}' names rows outside 0 to {most - 1}"
        if len(np.unique(ids)) < len(ids):
            return f"'{name}' names a row twice"
    return None
