"""Commands while an index run is suspended (Ctrl-Z, SIGSTOP): real processes, from end to end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from pipeline.git.repository import open_repository
from serve import index_status
from serve.repositories import locate_index
from stores import frames
from stores.index_copy import IndexHolder
from stores.locks import LockHolder
from tests.bench.indexes import compute_fingerprint
from tests.pipeline.histories import create_interleaved_repo
from tests.repos import Repo
from tests.serve.commands import ROOT, read_output, run_lineage
from tests.stores.processes import wait_until_suspended

INDEX = ("index", "--incremental", "--no-progress", "--commit-batch", "2", "--workers", "2")
# Program that suspends its process group in the transaction of its second batch, as Ctrl-Z does. Arguments: a signal,
# and those of `lineage`.
SUSPENDED_RUN = """
import os, signal, sys
from serve.cli.app import main
from stores import writer
insert_history, batches = writer._insert_history, []
def suspend_in_second_batch(*arguments):
    batches.append(1)
    if len(batches) == 2:
        os.killpg(0, int(sys.argv[1]))
    return insert_history(*arguments)
writer._insert_history = suspend_in_second_batch
raise SystemExit(main(sys.argv[2:]))
"""
# First parents of HEAD that the first index lacks, with the commits that they merge.
NEW_COMMITS = 6
# Limit of the time to finish the run on a busy machine.
MAX_SECONDS = 60


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return create_interleaved_repo(tmp_path_factory.mktemp("interleaved") / "repo", rounds=2)


@pytest.fixture(scope="module")
def homes(repo: Repo, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Home with an index that lacks the newest commits, and a copy of it that an uninterrupted run has completed."""
    first, completed = (tmp_path_factory.mktemp(name) / "home" for name in ("first", "completed"))
    head = repo.head
    repo.git("reset", "--quiet", "--hard", f"HEAD~{NEW_COMMITS}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LINEAGE_HOME", str(first))
        assert run_lineage(*INDEX, repo.path, "--encoder", "static") == 0
        repo.git("reset", "--quiet", "--hard", head)
        shutil.copytree(first, completed)
        patch.setenv("LINEAGE_HOME", str(completed))
        assert run_lineage(*INDEX, repo.path) == 0
    return first, completed


@contextmanager
def suspend_run(repo: Repo, number: signal.Signals) -> Iterator[Popen[bytes]]:
    """Start an index run, and wait until it has suspended itself in a transaction."""
    process = Popen(
        [sys.executable, "-c", SUSPENDED_RUN, str(int(number)), *INDEX, str(repo.path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )
    with process:
        try:
            wait_until_suspended(process)
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def continue_run(process: Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGCONT)
    assert process.wait(timeout=MAX_SECONDS) == 0


@pytest.fixture
def home(home: Path, homes: tuple[Path, Path]) -> Path:
    shutil.copytree(homes[0], home)
    return home


def test_questions_during_a_suspended_run(
    repo: Repo, home: Path, homes: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Queries, explanations and the status are answered and say why they are old; the run continues unharmed."""
    behind = int(repo.git("rev-list", "--count", f"HEAD~{NEW_COMMITS}..HEAD")) - 2  # without the first batch
    with suspend_run(repo, signal.SIGTSTP) as process:
        user = f"an index run (process {process.pid}, suspended) holds the index"
        query = json.loads(read_output(capsys, "query", repo.path, "-q", "greeter", "--json"))
        assert query["hits"] and query["meta"]["index_status"]["commits_behind_head"] == behind
        assert f"because {user}. Continue it with `fg` or `kill -CONT {process.pid}`" in query["meta"]["hint"]
        assert f"The index is {behind} commits behind HEAD." in query["meta"]["hint"]
        explanation = json.loads(read_output(capsys, "explain", "greeter.py", repo.path, "--json"))
        assert user in explanation["meta"]["hint"]
        assert explanation["meta"]["explain"]["blame_coverage"] > 0
        status = read_output(capsys, "status", repo.path)
        assert f"commits_behind_head: {behind}" in status and user in status
        continue_run(process)
    assert "holds the index" not in read_output(capsys, "status", repo.path)
    assert compute_fingerprint(repo.path, home) == compute_fingerprint(repo.path, homes[1])


def test_notebook_during_a_suspended_run(repo: Repo, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A notebook reads the last committed state, and a warning says so."""
    location = locate_index(home, open_repository(repo.path))
    indexed_before = frames.read_frames(location).commits.height
    with suspend_run(repo, signal.SIGSTOP) as process:
        assert frames.read_frames(location).commits.height == indexed_before + 2
        assert f"an index run (process {process.pid}, suspended) holds the index" in caplog.text


@pytest.mark.usefixtures("home")
def test_second_run_waits_for_a_suspended_run(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """A second index run says how to continue the suspended one: it is refused, or waits with `--incremental`."""
    with suspend_run(repo, signal.SIGSTOP) as process:
        remedy = f"is suspended (process {process.pid}). Continue it with `fg` or `kill -CONT {process.pid}`"
        assert run_lineage("index", repo.path) == 1
        assert remedy in capsys.readouterr().err
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        second = Popen(
            [sys.executable, "-m", "serve.cli.app", *INDEX, str(repo.path)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with second:
            assert second.stderr is not None
            line = second.stderr.readline().decode()
            assert remedy in line and "Waiting for it." in line
            continue_run(process)
            assert second.communicate(timeout=MAX_SECONDS)[0].decode().startswith("index up-to-date")


def test_description_of_a_copy() -> None:
    """The description has the age if it is known, and a remedy only for a suspended process."""
    unknown = IndexHolder(None, is_index_run=False)
    assert index_status.describe_copy(unknown, None) == (
        "the last committed state, because another process holds the index."
    )
    busy = IndexHolder(LockHolder(7, is_exclusive=True, command="duckdb"), is_index_run=False)
    assert index_status.describe_copy(busy, None).endswith("because process 7 (duckdb) holds the index.")
