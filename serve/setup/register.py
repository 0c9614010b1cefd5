"""Command `register`: display of an MCP server's configuration, and its edits in a client's file.

A client's file is backed up before a change, to a directory that only its user can read. The edited text is parsed
before it is written: if anything but the entry differs, nothing is written and the user has to edit the file by hand.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

from serve import config
from serve.errors import BadRequest
from serve.setup import file_edit
from serve.setup.mcp_clients import (
    CLIENTS,
    SHAPES,
    Server,
    Shape,
    check_inside_project,
    find_project_config_file,
    find_user_config_file,
    get_client,
    list_user_config_paths,
    starts_own_program,
    starts_server,
)
from stores import locks
from stores.errors import LineageError, StorageError
from stores.locks import Deadline

# File in the backup directory that each edit locks.
LOCK_FILE: Final = "register.lock"
LOCK_WAIT_SECONDS: Final = 10.0
# Number of hexadecimal digits of the path's SHA-256 in the name of a backup.
BACKUP_DIGITS: Final = 8
RESTART: Final = "Restart the client to apply it."


class ManualEditRequired(LineageError):
    """Error for a file that cannot be edited without a risk for its other content."""


class ServerNameTaken(LineageError):
    """Error for a file that has another server with the same name."""


class EditAction(Enum):
    """Effect of an edit on a file."""

    UNCHANGED = auto()
    CREATED = auto()
    CHANGED = auto()
    DELETED = auto()


@dataclass(frozen=True, slots=True)
class EditResult:
    """Effect of an edit on the file `path`.

    `backup`: copy of the old content, None if there was no file or change. `reason`: why nothing was changed.
    """

    action: EditAction
    path: Path
    backup: Path | None = None
    reason: str = ""


def format_snippet(server: Server, shape: Shape) -> str:
    """Return the text of a file with only this server."""
    return shape.config_format.format_document(shape.key, server.name, shape.merge_entry(server))


def _build_wait_error(_: float) -> LineageError:
    return LineageError("Another `register` still runs.", hint="Run the command again when it has ended.")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Configuration file of a client, the shape of its entries, and the directory of its backup."""

    path: Path
    shape: Shape
    backup_directory: Path

    def write(self, server: Server) -> EditResult:
        """Add or update the server's entry. Raise ServerNameTaken or ManualEditRequired if that is not possible."""
        before = file_edit.read_file(self.path)
        text = self._decode(before, hint=f"Add this by hand:\n\n{format_snippet(server, self.shape)}")
        existing_entry = self._find_entry(text, server)
        if existing_entry is not None and not starts_server(existing_entry, server):
            raise ServerNameTaken(
                f"{self.path} has another server with the name {server.name!r}.",
                hint="Use another name with --server-name, or remove the other server first.",
            )
        entry = self.shape.merge_entry(server, existing_entry)
        if entry == existing_entry:
            reason = f"its entry {server.name!r} is up to date"
            return EditResult(EditAction.UNCHANGED, self.path, reason=reason)
        after = self.shape.config_format.set_entry(text, self.shape.key, server.name, entry)
        self._check_edit(text, after, {**self._parse_servers(text), server.name: entry})
        return self._replace_file(before, after, keeps_backup=self._has_own_entry(text))

    def remove(self, server: Server) -> EditResult:
        """Remove the server's entry, and the file if lineage created it.

        Raise ServerNameTaken if the entry is of another server, and ManualEditRequired if the edit is not safe.

        A file counts as created by lineage if it has only this entry, in lineage's layout, is neither a link nor
        tracked by git, and has no backup from before the entry.
        """
        before = file_edit.read_file(self.path)
        text = self._decode(before, hint=f"Remove `{server.name}` from its `{self.shape.key}` by hand.")
        existing_entry = self._find_entry(text, server)
        if existing_entry is None:
            return EditResult(EditAction.UNCHANGED, self.path, reason=f"it has no entry {server.name!r}")
        if not starts_server(existing_entry, server):
            raise ServerNameTaken(
                f"{self.path} has another server with the name {server.name!r}. It was not removed.",
                hint="If the server has another name there, give it with --server-name.",
            )
        after = self.shape.config_format.remove_entry(
            text, self.shape.key, server.name, keeps_key=self._has_original_with_key()
        )
        servers = self._parse_servers(text)
        del servers[server.name]
        self._check_edit(text, after, servers)
        is_created_by_lineage = (
            text == self.shape.config_format.format_document(self.shape.key, server.name, existing_entry)
            and not self._has_original()
            and not self.path.is_symlink()
            and not _is_tracked(self.path)
        )
        return self._replace_file(
            before,
            after,
            keeps_backup=self._has_own_entry(text, except_name=server.name),
            is_deletion=is_created_by_lineage,
        )

    def _decode(self, content: bytes | None, *, hint: str) -> str:
        """Return the text of the file. Raise ManualEditRequired if it has an unexpected format."""
        try:
            text = (content or b"").decode("utf-8")
            document = self.shape.config_format.parse(text)
            if not isinstance(document, dict):
                raise ValueError("it is not an object")
            if not isinstance(document.get(self.shape.key, {}), dict):
                raise ValueError(f"its `{self.shape.key}` is not an object")
        except (ValueError, RecursionError) as error:
            raise ManualEditRequired(
                f"{self.path} cannot be changed safely as {self.shape.config_format.title}: {error}.",
                hint=hint,
            ) from error
        return text

    def _parse_servers(self, text: str) -> dict[str, Any]:
        return dict(self.shape.config_format.parse(text).get(self.shape.key, {}))

    def _find_entry(self, text: str, server: Server) -> Any:
        return self._parse_servers(text).get(server.name)

    def _has_own_entry(self, text: str, except_name: str = "") -> bool:
        """Return whether the text has an entry of this project's programs with another name than `except_name`."""
        entries = self._parse_servers(text).items()
        return any(name != except_name and starts_own_program(entry) for name, entry in entries)

    def _check_edit(self, before: str, after: str, servers: dict[str, Any]) -> None:
        """Raise ManualEditRequired unless `after` has these servers and is otherwise equal to `before`."""
        no_servers: dict[str, Any] = {self.shape.key: {}}
        expected_document = self.shape.config_format.parse(before) | {self.shape.key: servers}
        try:
            is_expected = no_servers | self.shape.config_format.parse(after) == expected_document
        except ValueError:
            is_expected = False
        if not is_expected:
            raise ManualEditRequired(
                f"{self.path} has a layout that lineage cannot edit without changing other content.",
                hint=f"Change its `{self.shape.key}` by hand.",
            )

    def _has_original(self) -> bool:
        """Return whether a backup from before all entries of this project exists. True for an unreadable backup."""
        try:
            return self._read_original() is not None
        except (LineageError, ValueError, RecursionError, AttributeError):
            return True

    def _has_original_with_key(self) -> bool:
        """Return whether a readable backup from before all entries of this project has the key of servers."""
        with suppress(LineageError, ValueError, RecursionError, AttributeError):
            original = self._read_original()
            return original is not None and self.shape.key in self.shape.config_format.parse(original)
        return False

    def _read_original(self) -> str | None:
        """Return the backup from before the file got entries of this project; None without such a backup."""
        backup = file_edit.read_file(self._backup_path)
        text = None if backup is None else backup.decode()
        return None if text is None or self._has_own_entry(text) else text

    def _replace_file(
        self, before: bytes | None, after: str, *, keeps_backup: bool, is_deletion: bool = False
    ) -> EditResult:
        """Back up the file, then write `after` or delete the file. Raise an error if its content is not `before`."""
        with ExitStack() as stack:
            with self._explain_backup_errors():
                file_edit.create_private_directory(self.backup_directory)
                deadline = Deadline.after(LOCK_WAIT_SECONDS, _build_wait_error)
                stack.enter_context(locks.acquire_exclusive_lock(self.backup_directory / LOCK_FILE, deadline))
            if file_edit.read_file(self.path) != before:
                raise ManualEditRequired(
                    f"Another program changed {self.path} at the same time.", hint="Run the command again."
                )
            with self._explain_backup_errors():
                backup = None if before is None else self._write_backup(before, keeps_backup=keeps_backup)
            if is_deletion:
                file_edit.delete_file(self.path)
                return EditResult(EditAction.DELETED, self.path, backup)
            file_edit.write_file(self.path, after.encode())
            return EditResult(EditAction.CREATED if before is None else EditAction.CHANGED, self.path, backup)

    @contextmanager
    def _explain_backup_errors(self) -> Iterator[None]:
        """If the `with` body cannot write to the backup directory, raise an error that says the file is unchanged."""
        try:
            with file_edit.convert_os_errors(self.backup_directory):
                yield
        except (file_edit.FileAccessError, StorageError) as error:
            raise file_edit.FileAccessError(
                f"{self.path} was not changed, because it cannot be backed up. {error.message}",
                hint=f"{error.hint} Or set LINEAGE_HOME to another directory.",
            ) from error

    def _write_backup(self, content: bytes, *, keeps_backup: bool) -> Path:
        """Back up the content, and return the path of the backup. A previous backup with other content becomes `.old`.

        With `keeps_backup`, an existing backup is not replaced, because it is the file without entries of lineage and
        mindmap.
        """
        if keeps_backup and self._backup_path.exists():
            return self._backup_path
        previous = file_edit.read_file(self._backup_path)
        if previous not in (None, content):
            file_edit.write_file(
                self._backup_path.with_suffix(".old"), previous, mode_source=self._backup_path
            )
        file_edit.write_file(self._backup_path, content)
        self._backup_path.chmod(0o600)
        return self._backup_path

    @property
    def _backup_path(self) -> Path:
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:BACKUP_DIGITS]
        return self.backup_directory / f"{self.path.name}.{digest}.bak"


def _is_tracked(file: Path) -> bool:
    """Return whether git tracks the file; True also if its repository cannot be read."""
    from pipeline.git.errors import NotARepository
    from pipeline.git.repository import open_repository

    try:
        repository = open_repository(file.parent)
        path = file.resolve().relative_to(repository.root)
    except (NotARepository, ValueError):  # ValueError: the file is in the git directory
        return False
    except LineageError:
        return True
    return repository.is_in_index(os.fsencode(path))


@dataclass(frozen=True, slots=True)
class RegisterOptions:
    """Options of the `register` command."""

    client: str | None = None
    project: Path | None = None
    file: Path | None = None
    shape: str | None = None
    write: bool = False
    remove: bool = False


@dataclass(frozen=True, slots=True)
class RegisterResult:
    """Output of `register`: `text` for stdout, and a `note` for the user on stderr."""

    text: str
    note: str = ""


def register(options: RegisterOptions, server: Server, backup_directory: Path) -> RegisterResult:
    """Show the server's configuration, or add it to or remove it from a client's file, after a backup."""
    _check_options(options)
    if not server.name.strip():
        raise BadRequest("The server name is empty.", hint="Omit --server-name, or give it a name.")
    if not options.remove:
        server.check_encoding()
    config_file = _select_config_file(options, backup_directory)
    if config_file is None:
        return RegisterResult(text="\n".join(_format_overview(server)))
    if options.write:
        return RegisterResult(_format_result(config_file.write(server), server, _get_next_step(options)))
    if options.remove:
        return RegisterResult(_format_result(config_file.remove(server), server, RESTART))
    note = f"Add this to {config_file.path}, or let --write add it."
    return RegisterResult(format_snippet(server, config_file.shape), note)


def _check_options(options: RegisterOptions) -> None:
    if options.write and options.remove:
        raise BadRequest("--write and --remove exclude each other.", hint="Use one of them.")
    if options.client and (options.file or options.shape):
        raise BadRequest("--client already determines file and shape.", hint="Omit --file and --shape.")
    if bool(options.file) != bool(options.shape):
        raise BadRequest(
            "--file and --shape must be used together.",
            hint=f"The shapes are {', '.join(SHAPES)}. `lineage register` shows them.",
        )
    if options.project and not options.client:
        raise BadRequest("--project needs --client.", hint="Name the client with --client.")
    if (options.write or options.remove) and not (options.client or options.file):
        raise BadRequest(
            "No client is named.",
            hint=f"Use --client with one of {', '.join(CLIENTS)}, or --file with --shape.",
        )


def _select_config_file(options: RegisterOptions, backup_directory: Path) -> ConfigFile | None:
    if options.file and options.shape:
        file = options.file.expanduser().absolute()
        return ConfigFile(file, _get_shape(options.shape), backup_directory)
    if options.client is None:
        return None
    client = get_client(options.client)
    if options.project is not None:
        file = find_project_config_file(client, options.project)
        if options.write or options.remove:
            check_inside_project(file, options.project)
        return ConfigFile(file, client.shape, backup_directory)
    file = find_user_config_file(client, config.list_config_directories(), is_mac=_is_mac())
    return ConfigFile(file, client.shape, backup_directory)


def _get_next_step(options: RegisterOptions) -> str:
    """Return the sentence that says what the user must do before the client starts the server."""
    if options.client is None:
        return RESTART
    client = get_client(options.client)
    return (client.project_step if options.project else client.user_step) or RESTART


def _get_shape(name: str) -> Shape:
    if name not in SHAPES:
        raise BadRequest(f"'{name}' is not a known shape.", hint=f"The shapes are {', '.join(SHAPES)}.")
    return SHAPES[name]


def _format_overview(server: Server) -> Iterator[str]:
    """Yield the lines about each shape: the clients and files that use it, and the server's entry."""
    directories, is_mac = config.list_config_directories(), _is_mac()
    for shape in SHAPES.values():
        yield f"{shape.name}:"
        for client in CLIENTS.values():
            paths = [*list_user_config_paths(client, is_mac=is_mac)[:1], *client.project_paths[:1]]
            if client.shape is shape and paths:
                alternatives = " or ".join(path.format_map(directories) for path in paths)
                yield f"  --client {client.name:<15} {alternatives}"
        yield ""
        yield from (f"    {line}".rstrip() for line in format_snippet(server, shape).splitlines())
        yield ""
    yield "`--client NAME --write` adds it to the client's file, after a backup; `--project PATH` to a project's file."


def _format_result(result: EditResult, server: Server, next_step: str) -> str:
    messages = {
        EditAction.UNCHANGED: f"{result.path} was not changed: {result.reason}.",
        EditAction.CREATED: f"Created {result.path} with {server.name!r}. {next_step}",
        EditAction.CHANGED: f"Changed {result.path} for {server.name!r}. {next_step}",
        EditAction.DELETED: f"Deleted {result.path}, which had been created for {server.name!r}.",
    }
    backup = f"\nBackup: {result.backup}" if result.backup else ""
    return messages[result.action] + backup


def _is_mac() -> bool:
    return sys.platform == "darwin"
