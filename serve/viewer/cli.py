"""The `mindmap viewer` command."""

from __future__ import annotations

import sys
import threading
from typing import Annotated

import typer

from serve import config
from serve.cli.terminal import print_raw
from serve.viewer import discovery


def viewer_command(
    *,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Port on 127.0.0.1. If it is in use, the next free port is taken; 0 takes any free port. [4870]",
            show_default=False,
        ),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Show the maps in the browser and follow their changes, until Ctrl-C. Reachable from this machine only."""
    from serve import logs
    from serve.backend import select_backend
    from serve.viewer.server import DEFAULT_PORT, bind_port, run_viewer

    settings = config.load_settings()
    logs.configure(settings.log_level)
    requested_port = DEFAULT_PORT if port is None else port
    listener = bind_port(requested_port)
    address = f"http://{discovery.HOST}:{listener.port}/"
    other_address = discovery.read_address(settings.maps_dir)

    def print_address() -> None:
        if requested_port not in (0, listener.port):
            print_raw(
                f"Port {requested_port} is in use. The viewer uses the next free port, {listener.port}."
            )
        print_raw(f"{address} shows the maps in {settings.maps_dir}. Press Ctrl-C to stop.")
        if other_address:
            print_raw(f"Another viewer already shows them: {other_address}")
        sys.stdout.flush()
        if open_browser:
            # A text browser blocks until the user closes it.
            threading.Thread(target=_open_browser, args=(address,), daemon=True).start()

    run_viewer(settings.maps_dir, listener, select_backend(settings), print_address)


def _open_browser(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        typer.echo(f"Cannot open a browser. Open {address} yourself.", err=True)
