"""`fedpriv watch`: follow a run in the browser."""

from pathlib import Path
from typing import Annotated

import typer


def watch(
    folder: Annotated[Path, typer.Argument(help="The run folder to follow.")],
    port: Annotated[int, typer.Option(help="0 takes any free port.", min=0, max=65535)] = 8765,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Follow a run in the browser while it goes on; read-only."""
    import uvicorn

    from fedpriv.simulations.watch import LOCAL, listening, watch_app

    app = watch_app(folder, LOCAL if host in LOCAL else frozenset())
    with listening(host, port) as socket:
        address = f"[{host}]" if ":" in host else host
        typer.echo(f"http://{address}:{socket.getsockname()[1]}/  (Ctrl-C ends it)")
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[socket])
