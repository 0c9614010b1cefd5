"""Small real git repositories, built with git, fixed identities and fixed dates.

The same calls create the same hashes on every machine: the user's configuration is not read, and every commit's
date comes from the caller or from a clock that advances one hour per commit. ADA is the default author.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Concatenate, Final, ParamSpec

ADA: Final = "Ada Lovelace <ada@example.org>"
FIRST_DATE: Final = datetime(2020, 1, 1, 12, tzinfo=UTC)


def build_environment(*, author: str = ADA, date: datetime = FIRST_DATE) -> dict[str, str]:
    """Return an environment in which git reads only the repository's own configuration.

    `author`: author and committer, as `Name <address>`. `date`: date of both.
    """
    name, _, address = author.partition(" <")
    variables = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    git_date = date.isoformat()
    return variables | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address.rstrip(">"),
        "GIT_AUTHOR_DATE": git_date,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": address.rstrip(">"),
        "GIT_COMMITTER_DATE": git_date,
        "LC_ALL": "C.UTF-8",
        # A third of the time of a commit.
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "maintenance.auto",
        "GIT_CONFIG_VALUE_0": "false",
    }


Arguments = ParamSpec("Arguments")


def create_once(
    create: Callable[Concatenate[Path, Arguments], Repo],
) -> Callable[Concatenate[Path, Arguments], Repo]:
    """Decorate a function that creates the same repository at any path: later calls in this process copy it."""

    originals: dict[Hashable, tuple[TemporaryDirectory[str], datetime]] = {}

    def copy(path: Path, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Repo:
        key = (arguments, *sorted(options.items()))
        if key not in originals:
            folder = TemporaryDirectory()
            originals[key] = folder, create(Path(folder.name) / "repo", *arguments, **options).clock
        folder, clock = originals[key]
        shutil.copytree(Path(folder.name) / "repo", path, symlinks=True, dirs_exist_ok=True)
        return Repo(path, clock)

    return copy


@dataclass(slots=True)
class Repo:
    """Repository on disk with its work tree at `path`. `clock`: date of the last commit."""

    path: Path
    clock: datetime = field(default=FIRST_DATE)

    @classmethod
    def create(cls, path: Path, *, object_format: str = "sha1", bare: bool = False) -> Repo:
        """Create an empty repository with the branch `main`."""
        return create_empty_repo(path, object_format, bare)

    def git(
        self,
        *arguments: str | bytes,
        stdin: bytes | None = None,
        author: str = ADA,
        date: datetime | None = None,
        check: bool = True,
    ) -> str:
        """Run git like `git_bytes`; return its output as text, without the last line break."""
        output = self.git_bytes(*arguments, stdin=stdin, author=author, date=date, check=check)
        return output.decode("utf-8", errors="replace").removesuffix("\n")

    def git_bytes(
        self,
        *arguments: str | bytes,
        stdin: bytes | None = None,
        author: str = ADA,
        date: datetime | None = None,
        check: bool = True,
    ) -> bytes:
        """Run git; return its output. `date`: the clock's date if None.

        Raises AssertionError if git fails and `check` is True.
        """
        result = subprocess.run(
            [b"git", *(os.fsencode(argument) for argument in arguments)],
            cwd=self.path,
            env=build_environment(author=author, date=date or self.clock),
            input=stdin if stdin is not None else b"",
            capture_output=True,
            check=False,
        )
        if check and result.returncode:
            raise AssertionError(f"git {arguments} failed: {result.stderr.decode(errors='replace')}")
        return result.stdout

    @property
    def head(self) -> str:
        """The sha of HEAD, from the files of its branch where that is possible: a process takes ten times as long."""
        head_file = self.path / ".git" / "HEAD"
        if head_file.is_file() and (text := head_file.read_text()).startswith("ref: "):
            branch_file = head_file.parent / text.removeprefix("ref: ").strip()
            if branch_file.is_file():
                return branch_file.read_text().strip()
        return self.git("rev-parse", "HEAD")

    def write(self, name: str | bytes, content: str | bytes, *, executable: bool = False) -> Path:
        """Write a file into the work tree; text is written as UTF-8 with unchanged line ends."""
        target = self.path / os.fsdecode(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        target.chmod(0o755 if executable else 0o644)
        return target

    def remove(self, name: str) -> None:
        """Remove a file or directory from the work tree and the git index."""
        self.git("rm", "-r", "--quiet", "--", name)

    def rename(self, old: str, new: str) -> None:
        """Rename a file with `git mv`."""
        (self.path / new).parent.mkdir(parents=True, exist_ok=True)
        self.git("mv", "--", old, new)

    def symlink(self, name: str, target: str) -> None:
        """Create a symlink in the work tree."""
        (self.path / name).symlink_to(target)

    def commit(
        self,
        message: str,
        *,
        date: datetime | None = None,
        author: str = ADA,
        amend: bool = False,
        add: bool = True,
    ) -> str:
        """Create a commit, even without changes, and return its sha.

        `date`: an hour after the last commit if None. `amend`: replace the last commit.
        `add`: stage the whole work tree first; if False, the commit has what is staged.
        """
        if add:
            self.git("add", "--all")
        self.clock = date or self.clock + timedelta(hours=1)
        options = ["--amend"] if amend else []
        arguments = ["commit", "--quiet", "--allow-empty", "--allow-empty-message", *options, "--file=-"]
        self.git(*arguments, stdin=message.encode(), author=author)
        return self.head

    def commit_file(
        self, name: str, content: str | bytes, message: str = "", *, date: datetime | None = None
    ) -> str:
        """Write one file and commit it; return the commit's sha."""
        self.write(name, content)
        return self.commit(message or f"Change {name}", date=date)

    def branch(self, name: str, start: str = "HEAD") -> None:
        """Create a branch and switch to it."""
        self.git("switch", "--quiet", "--create", name, start)

    def switch(self, name: str, *, detach: bool = False) -> None:
        self.git("switch", "--quiet", *(["--detach"] if detach else []), name)

    def merge(self, *names: str, message: str = "Merge", resolution: dict[str, str] | None = None) -> str:
        """Merge branches into the current one; return the merge commit's sha.

        `resolution`: path -> content of each file that was resolved manually.
        """
        self.clock += timedelta(hours=1)
        self.git("merge", "--quiet", "--no-ff", "--no-commit", *names, check=False)
        for name, content in (resolution or {}).items():
            self.write(name, content)
        return self._commit_merge(message, names)

    def _commit_merge(self, message: str, names: tuple[str, ...]) -> str:
        """Create the merge commit from the work tree, even if the branches bring no change."""
        self.git("add", "--all")
        tree = self.git("write-tree")
        parents = [f"-p{name}" for name in ("HEAD", *names)]
        sha = self.git("commit-tree", tree, *parents, stdin=message.encode())
        self.git("merge", "--abort", check=False)
        self.git("reset", "--quiet", "--hard", sha)
        return sha

    def clone(self, path: Path, *options: str) -> Repo:
        """Clone to `path` with further options of `git clone`.

        The clone uses a file URL, because `--depth` and `--filter` have no effect with a path.
        """
        self.git("clone", "--quiet", *options, self.path.as_uri(), str(path))
        return Repo(path, self.clock)


@create_once
def create_empty_repo(path: Path, object_format: str, bare: bool) -> Repo:
    """Create an empty repository with the branch `main`."""
    path.mkdir()
    repo = Repo(path)
    options = ["--template=", *(["--bare"] if bare else [])]
    repo.git("init", "--quiet", "--initial-branch=main", f"--object-format={object_format}", *options)
    for name in ("hooks", "info"):  # usually from git's template, with a dozen sample files
        (path / ("." if bare else ".git") / name).mkdir(exist_ok=True)
    return repo


def read_dates(repo: Repo) -> dict[str, int]:
    """Return git's committer date of every commit, in seconds."""
    lines = repo.git("log", "--format=%H %ct").splitlines()
    return {sha: int(date) for sha, date in (line.split() for line in lines)}
