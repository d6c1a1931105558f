"""Flower's SuperExec that loads torch once: `python -m fedpriv.clients.protection.executor`.

Flower starts a fresh process for every message, and loading torch in it takes longer than most
messages. This one loads everything once and forks; a message still runs in a process of its own.
It takes the options of `flower-superexec`, and from the environment

    FEDPRIV_TRUSTED_BUNDLES  SHA-256 digests of bundles this client will run besides fedpriv's own,
                             separated by spaces or commas, or a file of them; `any` trusts all.

Flower's `--trusted-entities` needs signatures of Flower's hub. A digest needs no third party.
"""

import os
import re
import sys
from logging import ERROR
from pathlib import Path
from typing import Any

from fedpriv.clients.protection.bundle import digest_of, own_bundle
from fedpriv.errors import BadOption, Refused
from fedpriv.flower import (
    ExecutionSpec,
    LaunchResult,
    SubprocessExecutor,
    TaskType,
    log,
    validate_and_resolve_root_certificates,
)
from fedpriv.flower import run_superexec as superexec

TRUSTED, ANY = "FEDPRIV_TRUSTED_BUNDLES", "any"
PACKAGES = ("fedpriv", "clients", "strategies", "attacks", "simulations")


def trusted_bundles(text: str) -> frozenset[str] | None:
    """The digests in `text`, or in the file it names, and our own; None trusts every bundle."""
    text = text.strip()
    if text == ANY:
        return None
    if text and Path(text).is_file():
        text = Path(text).read_text("utf-8")
    digests = [word for word in re.split(r"[\s,]+", text) if word]
    for digest in digests:
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise BadOption(
                f"{TRUSTED} holds '{digest}', which is no SHA-256 digest (64 hexadecimal digits); "
                f"give digests, a file of them, or '{ANY}'."
            )
    return frozenset([*digests, digest_of(own_bundle())])


def check_bundle(bundle: bytes, trusted: frozenset[str] | None) -> None:
    """Refused unless the bundle is trusted; unload our modules if it brings its own code."""
    digest = digest_of(bundle)
    if trusted is not None and digest not in trusted:
        raise Refused(
            f"The bundle {digest} is not one this client trusts; its owner can add that digest "
            f"to {TRUSTED}."
        )
    if digest != digest_of(own_bundle()):
        for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
            del sys.modules[name]


def run_message(spec: ExecutionSpec, trusted: frozenset[str] | None) -> None:
    """One message, in the process that was forked for it."""
    from fedpriv.flower import run_clientapp as runtime

    own = vars(runtime)  # Flower has no place of its own for a check before a bundle is installed
    install = own["install_from_fab"]

    def checked(bundle: bytes, *arguments: Any, **options: Any) -> Any:
        check_bundle(bundle, trusted)
        return install(bundle, *arguments, **options)

    own["install_from_fab"] = checked
    runtime.run_clientapp(
        runtime_api_address=spec.runtime_api_address,
        token=spec.token,
        insecure=spec.insecure,
        certificates=validate_and_resolve_root_certificates(
            spec.root_certificates_path, spec.insecure
        ),
        parent_pid=spec.parent_pid,
        runtime_dependency_install=False,
    )


class ForkExecutor(SubprocessExecutor):
    """Starts ClientApps by forking this process; anything else as Flower does."""

    def __init__(self, trusted: frozenset[str] | None) -> None:
        self.trusted = trusted
        self.children: set[int] = set()

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        if spec.task_type != TaskType.CLIENT_APP:
            return LaunchResult.failed(f"this executor runs ClientApps, not {spec.task_type}")
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            self.children.add(child)
            return LaunchResult.accepted()
        code = 1
        try:
            forget_exit_handlers()
            run_message(spec, self.trusted)
            code = 0
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 1
        except BaseException as error:
            log(ERROR, "A ClientApp process broke down", exc_info=error)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def reconcile(self) -> None:
        """Collect the children that have ended."""
        for child in list(self.children):
            try:
                ended, _ = os.waitpid(child, os.WNOHANG)
            except ChildProcessError:
                ended = child
            if ended:
                self.children.discard(child)


def forget_exit_handlers() -> None:
    """The parent's exit handlers close the parent's connections: a child must not run them."""
    from fedpriv.flower import registered_exit_handlers

    registered_exit_handlers.clear()


def load() -> None:
    """Import what a message needs; nothing here computes, since threads do not survive a fork."""
    import torch

    import fedpriv.clients.app  # noqa: F401
    from fedpriv.eager import skip_compiler

    torch.set_num_threads(1)
    skip_compiler()


def main() -> None:
    from fedpriv.flower import flower_superexec

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        executor = ForkExecutor(trusted_bundles(os.environ.get(TRUSTED, "")))
    except BadOption as error:
        sys.exit(f"error: {error}")
    load()
    vars(superexec)["get_executor"] = lambda *arguments, **options: executor
    flower_superexec()


if __name__ == "__main__":
    main()
