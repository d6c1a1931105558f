"""Flower's private modules, all that we use of them: a new line of Flower is this file's work.

Names are imported when they are asked for: a client's process needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flwr.cli.build import build_fab_from_files as build_fab_from_files
    from flwr.client.mod import secaggplus_mod as secaggplus_mod
    from flwr.common import Code as Code
    from flwr.common import FitIns as FitIns
    from flwr.common import FitRes as FitRes
    from flwr.common import Status as Status
    from flwr.common import ndarrays_to_parameters as ndarrays_to_parameters
    from flwr.common import parameters_to_ndarrays as parameters_to_ndarrays
    from flwr.common.config import flatten_dict as flatten_dict
    from flwr.common.config import parse_config_args as parse_config_args
    from flwr.common.secure_aggregation import secaggplus_constants as secaggplus_constants
    from flwr.common.secure_aggregation.secaggplus_constants import (
        RECORD_KEY_CONFIGS as RECORD_KEY_CONFIGS,
    )
    from flwr.common.secure_aggregation.secaggplus_constants import Stage as Stage
    from flwr.common.serde import fab_to_proto as fab_to_proto
    from flwr.common.serde import recorddict_from_proto as recorddict_from_proto
    from flwr.common.serde import recorddict_to_proto as recorddict_to_proto
    from flwr.common.serde import run_from_proto as run_from_proto
    from flwr.common.serde import user_config_to_proto as user_config_to_proto
    from flwr.compat.common import recorddict_compat as recorddict_compat
    from flwr.proto.control_pb2 import ListNodesRequest as ListNodesRequest
    from flwr.proto.control_pb2 import ListRunsRequest as ListRunsRequest
    from flwr.proto.control_pb2 import RegisterNodeRequest as RegisterNodeRequest
    from flwr.proto.control_pb2 import StartRunRequest as StartRunRequest
    from flwr.proto.control_pb2 import StopRunRequest as StopRunRequest
    from flwr.proto.control_pb2 import StreamLogsRequest as StreamLogsRequest
    from flwr.proto.control_pb2 import UnregisterNodeRequest as UnregisterNodeRequest
    from flwr.proto.recorddict_pb2 import RecordDict as RecordDict
    from flwr.server.superlink.fleet.vce.backend.backend import Backend as Backend
    from flwr.server.superlink.fleet.vce.backend.raybackend import RayBackend as RayBackend
    from flwr.server.superlink.linkstate import linkstate_factory as linkstate_factory
    from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState as SqlLinkState
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD as MAIN_CONFIGS_RECORD
    from flwr.server.workflow.constant import MAIN_PARAMS_RECORD as MAIN_PARAMS_RECORD
    from flwr.server.workflow.constant import Key as Key
    from flwr.server.workflow.secure_aggregation.secaggplus_workflow import (
        SecAggPlusWorkflow as SecAggPlusWorkflow,
    )
    from flwr.server.workflow.secure_aggregation.secaggplus_workflow import (
        WorkflowState as WorkflowState,
    )
    from flwr.supercore import log as log
    from flwr.supercore import sql_mixin as sql_mixin
    from flwr.supercore.cli.flower_superexec import flower_superexec as flower_superexec
    from flwr.supercore.constant import TaskType as TaskType
    from flwr.supercore.control import ControlHttpClient as ControlHttpClient
    from flwr.supercore.exit.exit_handler import (
        registered_exit_handlers as registered_exit_handlers,
    )
    from flwr.supercore.fab import Fab as Fab
    from flwr.supercore.interceptors import (
        RuntimeVersionHttpInterceptor as RuntimeVersionHttpInterceptor,
    )
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes as public_key_to_bytes
    from flwr.supercore.run import Run as Run
    from flwr.supercore.superexec import run_superexec as run_superexec
    from flwr.supercore.superexec.executor.subprocess_executor import (
        SubprocessExecutor as SubprocessExecutor,
    )
    from flwr.supercore.superexec.executor.types import ExecutionSpec as ExecutionSpec
    from flwr.supercore.superexec.executor.types import LaunchResult as LaunchResult
    from flwr.supercore.task_identity import TaskIdentity as TaskIdentity
    from flwr.supercore.tls import (
        validate_and_resolve_root_certificates as validate_and_resolve_root_certificates,
    )
    from flwr.superlink.cli.flower_superlink import flower_superlink as flower_superlink
    from flwr.superlink.grid import HttpGrid as HttpGrid
    from flwr.supernode.cli.flower_supernode import flower_supernode as flower_supernode
    from flwr.supernode.runtime import run_clientapp as run_clientapp

PRIVATE = {
    "flwr.cli.build": ("build_fab_from_files",),
    "flwr.client.mod": ("secaggplus_mod",),
    "flwr.common": (
        "Code",
        "FitIns",
        "FitRes",
        "Status",
        "ndarrays_to_parameters",
        "parameters_to_ndarrays",
    ),
    "flwr.common.config": (
        "flatten_dict",
        "parse_config_args",
    ),
    "flwr.common.secure_aggregation": ("secaggplus_constants",),
    "flwr.common.secure_aggregation.secaggplus_constants": (
        "RECORD_KEY_CONFIGS",
        "SecAggKey",
        "Stage",
    ),
    "flwr.common.serde": (
        "fab_to_proto",
        "recorddict_from_proto",
        "recorddict_to_proto",
        "run_from_proto",
        "user_config_to_proto",
    ),
    "flwr.compat.common": ("recorddict_compat",),
    "flwr.proto.control_pb2": (
        "ListNodesRequest",
        "ListRunsRequest",
        "RegisterNodeRequest",
        "StartRunRequest",
        "StopRunRequest",
        "StreamLogsRequest",
        "UnregisterNodeRequest",
    ),
    "flwr.proto.recorddict_pb2": ("RecordDict",),
    "flwr.server.superlink.fleet.vce.backend.backend": ("Backend",),
    "flwr.server.superlink.fleet.vce.backend.raybackend": ("RayBackend",),
    "flwr.server.superlink.linkstate": ("linkstate_factory",),
    "flwr.server.superlink.linkstate.sql_linkstate": ("SqlLinkState",),
    "flwr.server.workflow.constant": (
        "Key",
        "MAIN_CONFIGS_RECORD",
        "MAIN_PARAMS_RECORD",
    ),
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow": (
        "SecAggPlusWorkflow",
        "WorkflowState",
    ),
    "flwr.supercore": (
        "log",
        "sql_mixin",
    ),
    "flwr.supercore.cli.flower_superexec": ("flower_superexec",),
    "flwr.supercore.constant": ("TaskType",),
    "flwr.supercore.control": ("ControlHttpClient",),
    "flwr.supercore.exit.exit_handler": ("registered_exit_handlers",),
    "flwr.supercore.fab": ("Fab",),
    "flwr.supercore.interceptors": ("RuntimeVersionHttpInterceptor",),
    "flwr.supercore.primitives.asymmetric": ("public_key_to_bytes",),
    "flwr.supercore.run": ("Run",),
    "flwr.supercore.superexec": ("run_superexec",),
    "flwr.supercore.superexec.executor.subprocess_executor": ("SubprocessExecutor",),
    "flwr.supercore.superexec.executor.types": (
        "ExecutionSpec",
        "LaunchResult",
    ),
    "flwr.supercore.task_identity": ("TaskIdentity",),
    "flwr.supercore.tls": ("validate_and_resolve_root_certificates",),
    "flwr.superlink.cli.flower_superlink": ("flower_superlink",),
    "flwr.supernode.cli.flower_supernode": ("flower_supernode",),
    "flwr.superlink.grid": ("HttpGrid",),
    "flwr.supernode.runtime": ("run_clientapp",),
}
THEIRS = {"SecAggKey": "Key"}  # names that Flower uses twice
_HOME = {name: module for module, names in PRIVATE.items() for name in names}


def __getattr__(name: str) -> Any:
    """The object of that name, from the module it lives in."""
    if name not in _HOME:
        raise AttributeError(f"module 'fedpriv.flower' has no attribute '{name}'")
    home, theirs = import_module(_HOME[name]), THEIRS.get(name, name)
    return (
        getattr(home, theirs) if hasattr(home, theirs) else import_module(f"{_HOME[name]}.{name}")
    )
