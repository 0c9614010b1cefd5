"""Repository that a tool call is about: the one it names, else that of the server's directory or of a client's root."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio.from_thread
from mcp.server.mcpserver.context import Context
from mcp.shared.exceptions import MCPError
from mcp_types import ClientCapabilities, ListRootsRequest, ListRootsResult, RootsCapability

from pipeline.git.errors import NotARepository


@dataclass(frozen=True, slots=True)
class RepositoryResolver:
    """Resolver of the argument `repository`.

    `home`: directory of the indexes. `directory`: the server's directory, used without the argument.
    """

    home: Path
    directory: Path

    def resolve(self, name: str | None, context: Context[Any, Any]) -> Path:
        """Return the path of the repository with this name or path.

        Without a name, it is the server's directory if that is in a repository, else the first client root that is in
        one. Raises BadRequest for an unknown or ambiguous name, and NotARepository, whose hint lists indexed
        repositories. Call it in a worker thread of anyio.
        """
        # Imported here, because libgit2 would delay the start of the server.
        from pipeline.git.repository import open_repository
        from serve.repositories import describe_indexed_repositories, resolve_repository_path

        if name is not None:
            return resolve_repository_path(self.home, name, self.directory)
        try:
            open_repository(self.directory)
        except NotARepository as error:
            for root in _list_client_roots(context):
                with suppress(NotARepository):
                    open_repository(root)
                    return root
            hint = f"Pass `repository`: a path or a name. {describe_indexed_repositories(self.home)}"
            raise NotARepository(error.message, hint=hint) from error
        return self.directory


def _list_client_roots(context: Context[Any, Any]) -> list[Path]:
    """Return the client's roots that are local directories; empty if it has none."""
    session = context.session
    if not session.check_client_capability(ClientCapabilities(roots=RootsCapability())):
        return []
    try:
        # Not `session.list_roots`, which warns that newer versions of the protocol have no roots.
        result = anyio.from_thread.run(session.send_request, ListRootsRequest(), ListRootsResult)
    except MCPError:
        return []
    uris = [urlsplit(str(root.uri)) for root in result.roots]
    return [Path(url2pathname(uri.path)) for uri in uris if uri.scheme == "file"]
