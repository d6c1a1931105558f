"""The errors a user can meet, and the exit code each one gives.

FedprivError
├── BadInput (2)        a setting, a file or a name is wrong: the user mends it
│   ├── BadOption       one option of a plugin, attack, model, strategy or section
│   ├── BadScenario     a scenario file or a --set
│   ├── BadData         a data set that is missing, truncated or mislabelled
│   ├── BadFolder       a run folder that cannot be read, written or resumed
│   └── BadObservation  a recording that is damaged or does not fit its model
├── GateCrossed (1)     the leakage is worse than the gate allows
├── Undecided (4)       a gate over work that was cut short, failed or was never measured
├── Interrupted (130)   somebody pressed Ctrl-C; what was there is kept
└── WorkFailed (3)      the input was right and the work still failed
    └── Refused         a client will not do what it was asked (budget, guard)
"""


class FedprivError(Exception):
    """Anything that fedpriv reports in one message, without a traceback.

    `exit_code` is what the command line ends with.

    Args:
        message: The value, the rule that it breaks, and the way out.

    Example:
        >>> from fedpriv import FedprivError, read
        >>> try:
        ...     read("quickstrat")
        ... except FedprivError as error:
        ...     print(error.exit_code)
        2
    """

    exit_code = 3


class BadInput(FedprivError):
    exit_code = 2


class BadOption(BadInput):
    pass


class BadScenario(BadInput):
    pass


class BadData(BadInput):
    pass


class BadFolder(BadInput):
    pass


class BadObservation(BadInput):
    pass


class GateCrossed(FedprivError):
    exit_code = 1


class Undecided(FedprivError):
    exit_code = 4


class Interrupted(FedprivError):
    exit_code = 130


class WorkFailed(FedprivError):
    exit_code = 3


class Refused(WorkFailed):
    pass


# What the command line ends with.
EXIT_CODES = {
    0: "done; an audit: holds",
    1: "a gate was crossed; an audit: leaks",
    2: "bad input: a name, a setting, a file",
    3: "the work itself failed",
    4: "undecided: a gate was asked for, but work was cut short, failed or was never measured",
    130: "interrupted with Ctrl-C, without a gate; what was there is kept",
}
