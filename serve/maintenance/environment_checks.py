"""Checks of the environment: git, the repository, model files, the daemon, hooks, MCP clients and their servers."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final

from pipeline.encoders import base
from pipeline.encoders.base import create_bundled_encoder
from pipeline.encoders.cross_encoder import ChangeText, CrossEncoder
from pipeline.git import commit_graph, git_cli
from pipeline.git.errors import REFETCH_COMMAND, DamagedRepository, UnreadableObject, UnsupportedRepository
from pipeline.git.git_cli import GitNotFound, UnreadableGitConfig
from pipeline.git.repository import Repository
from pipeline.options import EncoderName
from serve import config
from serve.daemon import process
from serve.daemon.client import DaemonClient
from serve.daemon.process import DaemonPaths, DaemonUnavailable
from serve.maintenance.checks import CheckContext, CheckResult, report_ok, report_problem, report_warning
from serve.setup.file_edit import FileAccessError, SectionMarkerError, read_file
from serve.setup.git_hooks import HOOK_NAMES, HOOK_SNIPPET, SECTION, find_hooks_directory
from serve.setup.mcp_clients import (
    CLIENTS,
    Client,
    Server,
    list_command_words,
    list_user_config_paths,
    starts_server,
)
from serve.text import format_count
from stores.errors import LineageError
from stores.locks import find_lock_holders

# Time to wait for the daemon's status, which it normally reports within a millisecond, even while it works on requests.
DAEMON_TIMEOUT_SECONDS: Final = 5.0
STOP_HINT: Final = "Run `lineage daemon stop`. The next query starts a new one."

# Faults of a hook, as they are shown to the user.
SNIPPET_MISSING: Final = "does not have lineage's section"
NOT_EXECUTABLE: Final = "is not executable, so git skips it"

REINSTALL_HINT: Final = "Reinstall lineage: a file of the package is damaged or missing."
# Two texts with the same meaning, and one with another meaning. A model must rate the first two as more similar.
_SIMILAR_TEXTS: Final = ("retry the request after a timeout", "try again when the connection timed out")
_UNRELATED_TEXT: Final = "draw the border of a button in blue"
# Maximum rounding error of the squared length of a unit vector.
LENGTH_TOLERANCE: Final = 1e-3

# Commands that register a server with clients, by the server program that clients start.
REGISTER_COMMANDS: Final = {"lineage-mcp": "lineage register", "mindmap": "mindmap register"}
# Time to wait until a server has started and listed its tools. On a busy machine its start takes several seconds.
SERVER_TIMEOUT_SECONDS: Final = 30


def check_daemon(context: CheckContext) -> Iterator[CheckResult]:
    """Check that a running daemon responds, has the same build as this program and is closed to other users."""
    if not context.settings.use_daemon:
        yield report_ok("daemon", "disabled by LINEAGE_NO_DAEMON")
        return
    paths = DaemonPaths(context.settings.home)
    try:
        paths.check_files()
    except DaemonUnavailable as error:
        yield report_problem("daemon", error.message, error.hint)
        return
    if not os.path.lexists(paths.socket):
        yield report_ok("daemon", "not running; the next query starts it")
        return
    # The permissions are checked before the first request, because a request corrects the directory's permissions.
    permission_problem = _check_socket_permissions(paths.socket)
    yield permission_problem or _check_daemon_response(paths)


def _check_socket_permissions(socket: Path) -> CheckResult | None:
    """Return a problem if another user could connect to the daemon or impersonate it."""
    for path, allowed in ((socket.parent, 0o700), (socket, 0o600)):
        permissions = stat.S_IMODE(path.lstat().st_mode)
        if permissions & ~allowed & 0o077:
            mode = f"{permissions:04o}"
            remedy = f"Run `chmod {allowed:o} {quote(str(path))}`. {STOP_HINT}"
            return report_problem("daemon", f"{path} is accessible to other users (mode {mode})", remedy)
    return None


def _check_daemon_response(paths: DaemonPaths) -> CheckResult:
    try:
        status = DaemonClient(paths, timeout_seconds=DAEMON_TIMEOUT_SECONDS).fetch_status()
    except LineageError as error:
        holders = find_lock_holders(paths.lock)
        remedy = f"Run `kill -9 {holders[0].pid}`. The next query starts a new one." if holders else STOP_HINT
        return report_problem("daemon", error.message, remedy)
    if status is None:
        return report_warning(
            "daemon",
            f"{paths.socket} is left from a daemon that was killed",
            "No action needed: the next query replaces it, and `lineage gc` deletes it.",
        )
    count = len(status.holdings)
    loaded_indexes = f"{count} {'index' if count == 1 else 'indexes'} loaded"
    found = f"process {status.pid}, version {status.version}, {loaded_indexes}"
    if status.build != process.compute_build_id():
        return report_warning(
            "daemon",
            f"{found}; another build than this program",
            f"The next query replaces it. To stop it now: {STOP_HINT}",
        )
    return report_ok("daemon", found)


def check_hooks(context: CheckContext) -> Iterator[CheckResult]:
    """Check that git hooks update the index after commits."""
    repository = context.repository
    if repository is None or repository.is_bare:
        return
    try:
        directory = find_hooks_directory(repository)
    except LineageError as error:
        yield report_ok("hooks", error.message, error.hint)
        return
    faults = {name: fault for name in HOOK_NAMES if (fault := _find_hook_fault(directory / name))}
    if len(faults) == len(HOOK_NAMES) and set(faults.values()) == {SNIPPET_MISSING}:
        yield report_ok(
            "hooks", "none installed", "`lineage init` installs hooks that keep the index up to date."
        )
        return
    if faults:
        found = "; ".join(f"{name} {fault}" for name, fault in faults.items())
        yield report_warning("hooks", found, _format_hook_remedy(directory, faults))
    else:
        yield report_ok("hooks", f"{', '.join(HOOK_NAMES)} in {_format_path(directory, repository)}")
    yield _check_hook_program(context)


def _find_hook_fault(file: Path) -> str:
    """Return why this hook does not update the index, or an empty string."""
    text = read_file(file) if file.is_file() else None
    try:
        if text is None or not SECTION.is_in(text):
            return SNIPPET_MISSING
    except SectionMarkerError:
        return "has lineage's section without its end marker"
    if not os.access(file, os.X_OK):
        return NOT_EXECUTABLE
    return (
        "" if SECTION.update_in(text, HOOK_SNIPPET) == text else "has an older version of lineage's section"
    )


def _format_hook_remedy(directory: Path, faults: dict[str, str]) -> str:
    not_executable = [
        quote(str(directory / name)) for name, fault in faults.items() if fault == NOT_EXECUTABLE
    ]
    if not_executable:
        return f"Run `chmod +x {' '.join(not_executable)}`, then `lineage init`."
    return "Run `lineage init` to update them."


def _check_hook_program(context: CheckContext) -> CheckResult:
    """Check the program that hooks start, as found on the PATH of this process. The hooks may get another PATH."""
    program = shutil.which("lineage")
    if program is None:
        return report_warning(
            "hook program",
            "`lineage` is not on PATH, so the hooks do nothing",
            f"Add its directory to PATH: {context.install_directory}",
        )
    if Path(program).resolve().parent != context.install_directory.resolve():
        return report_warning(
            "hook program",
            f"the hooks start {program}, another installation than this one in {context.install_directory}",
            "Put this one first on PATH, or remove the other.",
        )
    return report_ok("hook program", program)


def _format_path(path: Path, repository: Repository) -> Path:
    return path.relative_to(repository.root) if path.is_relative_to(repository.root) else path


def check_model_files(_: CheckContext) -> Iterator[CheckResult]:
    """Check that each bundled model file has its original content."""
    faults = base.find_corrupt_files()
    for name, fault in faults.items():
        yield report_problem("model files", f"{base.MODELS_DIR / name}: {fault}", REINSTALL_HINT)
    if not faults:
        yield report_ok("model files", f"{', '.join(base.read_checksums())}: intact")


def check_encoder(_: CheckContext) -> Iterator[CheckResult]:
    """Check that both MiniLM encoders load and place similar texts closer together."""
    yield _check_embedding("encoder", EncoderName.MINILM)


def check_static_encoder(_: CheckContext) -> Iterator[CheckResult]:
    """Check that the static encoder loads and places similar texts closer together."""
    yield _check_embedding("encoder static", EncoderName.STATIC)


def check_cross_encoder(context: CheckContext) -> Iterator[CheckResult]:
    """Check that the configured cross-encoder loads and gives the better answer the higher score."""
    cross_encoder = CrossEncoder(context.settings.reranker_precision, threads=1)
    scores = cross_encoder.score_changes(
        _SIMILAR_TEXTS[0], [ChangeText(text, "") for text in (_SIMILAR_TEXTS[1], _UNRELATED_TEXT)]
    )
    if scores[0] > scores[1]:  # False for NaN
        yield report_ok("cross-encoder", f"{cross_encoder.name}; scores are plausible")
    else:
        yield report_problem("cross-encoder", "its scores are wrong on this machine", REINSTALL_HINT)


def _check_embedding(name: str, encoder_name: EncoderName) -> CheckResult:
    """Check that the vector of a query is closer to the vector of a similar text than to that of an unrelated one."""
    encoder = create_bundled_encoder(encoder_name)
    query_text, similar_text = _SIMILAR_TEXTS
    [query] = encoder.encode_queries([query_text])
    similar, unrelated = encoder.encode([similar_text, _UNRELATED_TEXT])
    are_unit_vectors = all(
        abs(float(vector @ vector) - 1) <= LENGTH_TOLERANCE for vector in (query, similar, unrelated)
    )
    if are_unit_vectors and query @ similar > query @ unrelated:  # False for NaN
        return report_ok(name, f"{encoder.name}, {encoder.dimension} dimensions; vectors are plausible")
    return report_problem(name, "its vectors are wrong on this machine", REINSTALL_HINT)


def check_git(_: CheckContext) -> Iterator[CheckResult]:
    """Check that git is installed and new enough for blame and the commit-graph."""
    try:
        version = git_cli.read_version()
    except GitNotFound as error:
        yield report_problem("git", "git is not on PATH", error.hint)
        return
    oldest = ".".join(map(str, git_cli.MINIMUM_VERSION))
    if git_cli.parse_version(version) < git_cli.MINIMUM_VERSION:
        found = f"version {version or 'unknown'}; {oldest} or newer is needed"
        yield report_problem("git", found, "Install a newer git.")
        return
    yield report_ok("git", f"version {version}")


def check_repository(context: CheckContext) -> Iterator[CheckResult]:
    """Check that the repository's history can be read and is complete."""
    repository = context.repository
    if repository is None:
        return
    try:
        head = repository.read_head()
        if head is None:
            error = repository.build_head_error()
            yield report_warning("repository", error.message.removesuffix("."), error.hint)
            return
        repository.read_commit(head)
        with suppress(GitNotFound):  # another check reports it
            # Like most git commands, it fails for a bad value of a setting, and for a file that would block git.
            commit_graph.create_git_program(repository).run("log", "--max-count=1", "--format=")
    except (UnreadableObject, UnreadableGitConfig, DamagedRepository, UnsupportedRepository) as error:
        yield report_problem("repository", error.message, error.hint)
        return
    yield _check_completeness(repository)


def _check_completeness(repository: Repository) -> CheckResult:
    if repository.is_partial_clone:
        found = f"{repository.root}, a partial clone: commits with missing objects are not indexed"
        return report_warning("repository", found, f"Run {REFETCH_COMMAND} to get the missing objects.")
    if repository.is_shallow:
        found = f"{repository.root}, a shallow clone: its history is incomplete"
        return report_warning("repository", found, "Run `git fetch --unshallow`, then `lineage index`.")
    return report_ok("repository", f"{repository.root}{', bare' if repository.is_bare else ''}")


@dataclass(frozen=True, slots=True)
class ClientFile:
    """Configuration file of a client. `is_own`: True if the file belongs to the user, not to a project."""

    client: Client
    path: Path
    is_own: bool


class FaultyEntry(Exception):
    """Error for an entry whose server cannot be started, does not answer, or has other indexes than this program."""


def check_clients(context: CheckContext) -> Iterator[CheckResult]:
    """Check that each client with an entry for lineage or mindmap can start the server and uses the same indexes.

    The user's own configuration files and those in the repository are read. A server in a file of the repository is not
    started, because another person may have chosen its command.
    """
    has_result = False
    for file in _iter_client_files(context):
        for result in _check_client_file(file, context):
            has_result = True
            yield result
    if not has_result:
        yield report_ok(
            "clients", "none has an entry for lineage or mindmap", "`lineage register` shows what to add."
        )


def _iter_client_files(context: CheckContext) -> Iterator[ClientFile]:
    directories, is_mac = config.list_config_directories(), sys.platform == "darwin"
    root = context.repository.root if context.repository and not context.repository.is_bare else None
    for client in CLIENTS.values():
        own_files = [
            ClientFile(client, Path(path.format_map(directories)), is_own=True)
            for path in list_user_config_paths(client, is_mac=is_mac)
        ]
        project_files = [
            ClientFile(client, root / path, is_own=False) for path in client.project_paths if root
        ]
        yield from (file for file in (*own_files, *project_files) if file.path.is_file())


def _check_client_file(file: ClientFile, context: CheckContext) -> Iterator[CheckResult]:
    name, shape = f"client {file.client.name}", file.client.shape
    try:
        content = read_file(file.path) or b""
    except FileAccessError:
        yield report_warning(
            name, f"{file.path} cannot be read", "Check its permissions: the client may need them too."
        )
        return
    try:
        servers = shape.config_format.parse(content.decode()).get(shape.key)
    except (ValueError, AttributeError, RecursionError):
        if any(program.encode() in content for program in REGISTER_COMMANDS):
            title = shape.config_format.title
            yield report_warning(
                name,
                f"{file.path} mentions lineage, but is not valid {title}",
                "Correct the file, because the client may ignore it.",
            )
        return
    for server_name, entry in (servers if isinstance(servers, dict) else {}).items():
        for program in REGISTER_COMMANDS:
            if starts_server(entry, Server(server_name, Path(program))):
                yield _check_server(server_name, entry, program, file, context)


def _check_server(
    server_name: str, entry: Mapping[str, Any], program: str, file: ClientFile, context: CheckContext
) -> CheckResult:
    """Check the entry of a server. The remedy for a fault is the command that registers the server again."""
    name = f"client {file.client.name}"
    try:
        tool_count = _check_entry(entry, program, file, context)
    except FaultyEntry as fault:
        register_command = REGISTER_COMMANDS[program]
        default_name, _ = register_command.split()
        project = "" if file.is_own else " --project ."
        name_option = "" if server_name == default_name else f" --server-name {quote(server_name)}"
        options = f"--client {file.client.name}{project}{name_option} --write"
        return report_warning(name, f"{file.path}: {fault}", f"Run `{register_command} {options}`.")
    tools = "" if tool_count is None else f": {format_count(tool_count, 'tool')}"
    return report_ok(name, f"{server_name} in {file.path}{tools}")


def _check_entry(
    entry: Mapping[str, Any], program: str, file: ClientFile, context: CheckContext
) -> int | None:
    """Return the number of the server's tools; None for a file of a project. Raise FaultyEntry."""
    words = list_command_words(entry)
    executable = shutil.which(words[0])
    if executable is None:
        raise FaultyEntry(f"{words[0]} does not exist or is not executable")
    variables = entry.get(file.client.shape.environment_key)
    environment = (
        {str(name): str(value) for name, value in variables.items()} if isinstance(variables, dict) else {}
    )
    if program == "lineage-mcp":
        _check_entry_home(environment, context)
    if not file.is_own:
        return None
    try:
        return _count_tools(executable, words[1:], environment)
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        reason = str(error) or type(error).__name__
        raise FaultyEntry(f"the server does not answer ({reason:.200})") from error


def _check_entry_home(environment: Mapping[str, str], context: CheckContext) -> None:
    """Raise FaultyEntry if the environment gives the server another index directory than this program's."""
    configured_home = environment.get("LINEAGE_HOME") or str(config.DEFAULT_HOME)
    expanded_home = os.path.expanduser(configured_home)  # noqa: PTH111 - `Path.expanduser` raises for an unknown user
    home = context.settings.home
    if Path(expanded_home).absolute() != home:
        raise FaultyEntry(f"its indexes are in {configured_home}, those of this program in {home}")


def _count_tools(executable: str, arguments: list[str], environment: Mapping[str, str]) -> int:
    """Start a server as a client does, without a daemon, and return the number of its tools."""
    import anyio
    from mcp.client import Client as McpClient
    from mcp.client.stdio import StdioServerParameters, stdio_client

    # The client logs a traceback for each line of a program that is no MCP server. The check reports such a program.
    logging.getLogger("mcp.client.stdio").disabled = True

    async def count_tools() -> int:
        parameters = StdioServerParameters(
            command=executable, args=arguments, env={**environment, "LINEAGE_NO_DAEMON": "1"}
        )
        with anyio.fail_after(SERVER_TIMEOUT_SECONDS), Path(os.devnull).open("w") as no_log:
            async with McpClient(stdio_client(parameters, no_log)) as client:
                return len((await client.list_tools()).tools)

    return anyio.run(count_tools)
