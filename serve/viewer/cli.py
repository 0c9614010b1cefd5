"""`mindmap viewer`, as a person calls it."""

from __future__ import annotations

import sys
import threading
from typing import Annotated

import typer

from serve import config
from serve.cli.terminal import write
from serve.viewer import discovery


def viewer_command(
    *,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Port on 127.0.0.1; the next free one where it is taken, any with 0. [4870]",
            show_default=False,
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Show the maps in the browser, live, until Ctrl-C. Only this machine can look."""
    from serve import logs
    from serve.backend import answering
    from serve.viewer.server import DEFAULT_PORT, bound, serve

    said = config.read()
    logs.configure(said.log)
    wanted = DEFAULT_PORT if port is None else port
    taken = bound(wanted)
    address = f"http://{discovery.HOST}:{taken.port}/"
    other = discovery.address(said.maps)

    def ready() -> None:
        if wanted not in (0, taken.port):
            write(f"Port {wanted} is taken; this is the next that is free.")
        write(f"{address} shows the maps of {said.maps}. Ctrl-C ends it.")
        if other:
            write(f"So does another viewer: {other}")
        sys.stdout.flush()
        if open_browser:
            # A browser of the terminal stays until it is closed.
            threading.Thread(target=_open, args=(address,), daemon=True).start()

    serve(said.maps, taken, answering(said), ready)


def _open(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        typer.echo(f"No browser could be opened. Open {address} yourself.", err=True)
