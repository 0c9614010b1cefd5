"""Headers, targets and status codes of the daemon's HTTP interface, without an import that takes time."""

from __future__ import annotations

from typing import Final

from serve.daemon.process import compute_build_id, compute_git_config_digest

# Build id of the client. The daemon rejects calls of another build.
BUILD_HEADER: Final = "Lineage-Build"
# Digest of the client's git configuration. The daemon rejects calls with another one.
GIT_CONFIG_HEADER: Final = "Lineage-Git-Config"
# Target of the request that turns its connection into an MCP session.
MCP_TARGET: Final = "/mcp"
STOP_TARGET: Final = "/stop"
STATUS_SWITCHING_PROTOCOLS: Final = 101
STATUS_ERROR: Final = 400
STATUS_OTHER_BUILD: Final = 409
STATUS_OTHER_GIT_CONFIG: Final = 412
STATUS_STOPPING: Final = 503


def build_identity_headers() -> dict[str, str]:
    """Return the headers that name this program's build and the user's git configuration."""
    return {BUILD_HEADER: compute_build_id(), GIT_CONFIG_HEADER: compute_git_config_digest()}
