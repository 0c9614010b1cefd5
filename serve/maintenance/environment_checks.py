"""What MCP clients are told of our server: whether what they would start is there, and asks the same indexes.

The shared daemon: whether it answers, which program it is, and who could meet it. None is started.

git's hooks: whether they have our block, the current one, and a program to start with it.

The bundled model files, whether a text embeds, and whether a question is read.

The git program and the repository.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final

from pipeline.encoders import registry
from pipeline.encoders.cross_encoder import Change, CrossEncoder
from pipeline.encoders.registry import bundled_encoder
from pipeline.git import git_cli
from pipeline.git.errors import UnreadableObject
from pipeline.git.git_cli import GitMissing
from pipeline.git.repository import Repository
from pipeline.options import Encoding
from serve import config
from serve.daemon import process
from serve.daemon.client import Remote
from serve.daemon.process import Address
from serve.maintenance.findings import Finding, Subject, ok, problem, warning
from serve.setup import json_config, toml_config
from serve.setup.file_edit import BrokenFence, FileRefused, content_of
from serve.setup.git_hooks import BLOCK, FENCES, HOOKS, hooks_folder
from serve.setup.mcp_clients import CLIENTS, Client, Server, starts, user_places
from stores.errors import LineageError
from stores.locks import holders

PROGRAM: Final = "lineage-mcp"
_READ: Final = {"json": json_config.read, "toml": toml_config.read}


def check_clients(subject: Subject) -> Iterator[Finding]:
    """Each client that is told of the server, in the person's own files and in the repository's."""
    told = False
    for client, file in _files(subject):
        for finding in _in_file(client, file, subject):
            told = True
            yield finding
    if not told:
        yield ok("clients", f"none is told of {PROGRAM}", "`lineage register` shows what to tell one.")


def _files(subject: Subject) -> Iterator[tuple[Client, Path]]:
    folders, mac = config.folders(), sys.platform == "darwin"
    root = subject.repository.root if subject.repository and not subject.repository.is_bare else None
    for client in CLIENTS.values():
        own = [Path(place.format_map(folders)) for place in user_places(client, mac=mac)]
        shared = [root / place for place in client.project] if root else []
        yield from ((client, file) for file in (*own, *shared) if file.is_file())


def _in_file(client: Client, file: Path, subject: Subject) -> Iterator[Finding]:
    name = f"client {client.name}"
    try:
        content = content_of(file) or b""
        servers = _READ[client.shape.language](content.decode()).get(client.shape.key)
    except FileRefused:
        yield warning(
            name, f"{file} cannot be read", "Look at its permissions: the client may not read it either."
        )
        return
    except (ValueError, AttributeError):
        # Not ours to judge: clients take comments in their JSON, which we do not; but it may be about us.
        if PROGRAM.encode() in content:
            yield ok(name, f"{file} names {PROGRAM}, in a form that is not checked")
        return
    for title, entry in (servers if isinstance(servers, dict) else {}).items():
        if starts(entry, Server(title, Path(PROGRAM))):
            fault = _client_fault(entry, client.shape.variables, subject)
            yield (
                warning(name, f"{file}: {fault}", _client_remedy(client))
                if fault
                else ok(name, f"{title} in {file}")
            )


def _client_fault(entry: Mapping[str, Any], variables: str, subject: Subject) -> str:
    """What would keep the client from our indexes; nothing when it would meet them."""
    command = entry.get("command")
    words = command if isinstance(command, list) else [command]
    program = str(words[0]) if words else ""
    if shutil.which(program) is None:
        return f"{program} is not there, or may not be executed"
    said = entry.get(variables)
    home = said.get("LINEAGE_HOME") if isinstance(said, dict) else None
    wanted = config.said_home()
    if (home or None) != wanted and not _same(home, subject.settings.home):
        return (
            f"it looks for indexes in {home or config.DEFAULT_HOME}, this program in {subject.settings.home}"
        )
    return ""


def _same(said: object, home: Path) -> bool:
    return Path(os.path.expanduser(str(said or config.DEFAULT_HOME))).absolute() == home  # noqa: PTH111 - text


def _client_remedy(client: Client) -> str:
    return f"`lineage register --client {client.name} --write` puts it right."


# A daemon answers for itself in a millisecond, however many questions it has in hand.
PATIENCE_SECONDS: Final = 5.0
STOP: Final = "`lineage daemon stop`; the next question starts another."


def check_daemon(subject: Subject) -> Iterator[Finding]:
    """Whether questions find the daemon they need, and nobody else does."""
    if not subject.settings.daemon:
        yield ok("daemon", "switched off by LINEAGE_NO_DAEMON")
        return
    met = Address(subject.settings.home)
    if not os.path.lexists(met.socket):
        yield ok("daemon", "none is running; the next question starts one")
        return
    # Before it is asked: asking closes the folder.
    unsafe = _unsafe(met.socket)
    yield unsafe or _answer(met)


def _unsafe(socket: Path) -> Finding | None:
    """What lets somebody else meet the daemon, or pass for it."""
    for path, allowed in ((socket.parent, 0o700), (socket, 0o600)):
        status = path.lstat()
        if status.st_uid != os.getuid():
            return problem(
                "daemon", f"{path} belongs to another user", "Remove it, or set LINEAGE_NO_DAEMON=1."
            )
        if stat.S_IMODE(status.st_mode) & ~allowed & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            fix = f"`chmod {allowed:o} {quote(str(path))}`, then {STOP}"
            return problem("daemon", f"{path} is open to other users (mode {mode})", fix)
    return None


def _answer(met: Address) -> Finding:
    try:
        report = Remote(met, patience=PATIENCE_SECONDS).report()
    except LineageError as error:
        remedy = f"`kill -9 {_pid(met)}` ends it; the next question starts another." if _pid(met) else STOP
        return problem("daemon", error.message, remedy)
    if report is None:
        return warning(
            "daemon",
            f"{met.socket} was left behind by one that was killed",
            "Nothing: the next question replaces it; `lineage gc` removes it.",
        )
    count = len(report.holdings)
    kept = f"{count} {'index' if count == 1 else 'indexes'} at hand"
    said = f"process {report.pid}, version {report.version}, {kept}"
    if report.build != process.build():
        return warning(
            "daemon",
            f"{said}; of another build than this program",
            f"The next question replaces it; or {STOP}",
        )
    return ok("daemon", said)


def _pid(met: Address) -> str:
    """The daemon that holds the lock, as far as it can be told."""
    held = holders(met.lock)
    return str(held[0].pid) if held else ""


def check_hooks(subject: Subject) -> Iterator[Finding]:
    """Whether commits bring the index up to date by themselves."""
    repository = subject.repository
    if repository is None or repository.is_bare:
        return
    try:
        folder = hooks_folder(repository)
    except LineageError as error:
        yield ok("hooks", error.message, error.hint)
        return
    faults = {name: fault for name in HOOKS if (fault := _hook_fault(folder / name))}
    if len(faults) == len(HOOKS) and set(faults.values()) == {ABSENT}:
        yield ok("hooks", "none installed", "`lineage init` keeps the index fresh by itself.")
        return
    if faults:
        said = "; ".join(f"{name} {fault}" for name, fault in faults.items())
        yield warning("hooks", said, _hook_remedy(folder, faults))
    else:
        yield ok("hooks", f"{', '.join(HOOKS)} in {_shown(folder, repository)}")
    yield _program(subject)


ABSENT = "has no part of ours"
SWITCHED_OFF = "may not be executed, so git skips it"


def _hook_fault(file: Path) -> str:
    """What keeps this hook from bringing the index up to date; nothing when it does."""
    text = content_of(file) if file.is_file() else None
    try:
        if text is None or not FENCES.encloses(text):
            return ABSENT
    except BrokenFence:
        return "has a part of ours without an end"
    if not os.access(file, os.X_OK):
        return SWITCHED_OFF
    return "" if FENCES.renewed(text, BLOCK) == text else "has an older part of ours"


def _hook_remedy(folder: Path, faults: dict[str, str]) -> str:
    off = [str(folder / name) for name, fault in faults.items() if fault == SWITCHED_OFF]
    return f"`chmod +x {' '.join(off)}`, then `lineage init`." if off else "`lineage init` renews them."


def _program(subject: Subject) -> Finding:
    """The program that the hooks find, as far as this environment tells: git's may have another PATH."""
    found = shutil.which("lineage")
    if found is None:
        return warning(
            "hooks' program",
            "`lineage` is not on PATH, so the hooks do nothing",
            f"Put the folder it is in on PATH: {subject.mine}",
        )
    if Path(found).resolve().parent != subject.mine.resolve():
        return warning(
            "hooks' program",
            f"the hooks start {found}, another installation than this one in {subject.mine}",
            "Put this one first on PATH, or remove the other.",
        )
    return ok("hooks' program", found)


def _shown(folder: Path, repository: Repository) -> Path:
    return folder.relative_to(repository.root) if folder.is_relative_to(repository.root) else folder


REINSTALL: Final = "Install lineage again: a file of the package was damaged or left out."

# Two ways to say one thing, and another thing: whatever the encoder's numbers are, their order is its whole use.
_SAID: Final = ("retry the request after a timeout", "try again when the connection timed out")
_ELSE: Final = "draw the border of a button in blue"
# Rounding leaves a vector's length within this of 1.
LENGTH_TOLERANCE: Final = 1e-3


def check_files(_: Subject) -> Iterator[Finding]:
    """Whether each bundled file is the one that was shipped."""
    wrong = registry.differing()
    for name, fault in wrong.items():
        yield problem("model files", f"{registry.FOLDER / name}: {fault}", REINSTALL)
    if not wrong:
        yield ok("model files", f"{', '.join(registry.shipped())}: as shipped")


def check_encoder(_: Subject) -> Iterator[Finding]:
    """Whether the sentence encoder loads, and puts kin nearer than strangers."""
    yield _checked("encoder", Encoding.MINILM)


def check_table(_: Subject) -> Iterator[Finding]:
    """The same of the static encoder."""
    yield _checked("encoder static", Encoding.STATIC)


def check_cross_encoder(subject: Subject) -> Iterator[Finding]:
    """Whether the cross-encoder that is asked for loads, and takes what is meant for a better answer."""
    reader = CrossEncoder(subject.settings.reranker, threads=1)
    fits = reader.scores(_SAID[0], [Change(said, "") for said in (_SAID[1], _ELSE)])
    if not fits[0] > fits[1]:
        yield problem("cross-encoder", "its scores make no sense on this machine", REINSTALL)
    else:
        yield ok("cross-encoder", f"{reader.name}; a question is read")


def _checked(name: str, encoding: Encoding) -> Finding:
    encoder = bundled_encoder(encoding, threads=1)
    first, second, other = encoder.encode([*_SAID, _ELSE])
    if abs(float(first @ first) - 1) > LENGTH_TOLERANCE or not first @ second > first @ other:
        return problem(name, "its vectors make no sense on this machine", REINSTALL)
    return ok(name, f"{encoder.name}, {encoder.dimension} dimensions; a text embeds")


def check_git(_: Subject) -> Iterator[Finding]:
    """Whether there is a git that is new enough: blame and the commit-graph are its work."""
    try:
        said = git_cli.version()
    except GitMissing as missing:
        yield problem("git", "no git program on PATH", missing.hint)
        return
    oldest = ".".join(map(str, git_cli.OLDEST))
    if git_cli.numbered(said) < git_cli.OLDEST:
        yield problem(
            "git", f"version {said or 'unknown'}; {oldest} is the oldest that works", "Install a newer git."
        )
        return
    yield ok("git", f"version {said}")


def check_repository(subject: Subject) -> Iterator[Finding]:
    """Whether the repository's history can be read, and how much of it is here."""
    repository = subject.repository
    if repository is None:
        return
    try:
        head = repository.head()
        if head is None:
            yield warning("repository", f"{repository.root} has no commits yet", "Commit something.")
            return
        repository.commit(head)
    except UnreadableObject as error:
        yield problem("repository", error.message, f"{error.hint.capitalize()}.")
        return
    yield _kind(repository)


def _kind(repository: Repository) -> Finding:
    if repository.is_partial:
        found = f"{repository.root}, a partial clone: commits with absent objects are not indexed"
        return warning("repository", found, "`git fetch --refetch --no-filter` brings what is absent.")
    if repository.is_shallow:
        found = f"{repository.root}, a shallow clone: history ends at its boundary"
        return warning("repository", found, "`git fetch --unshallow`, then `lineage index`.")
    return ok("repository", f"{repository.root}{', bare' if repository.is_bare else ''}")
