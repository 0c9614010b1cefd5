"""The doctor's command: what it says, that it touches nothing, and what it says of repositories."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.git import git_cli
from serve.maintenance import doctor
from serve.maintenance.findings import Finding, Subject, problem
from stores.index_location import Place
from tests.repos import Repo
from tests.serve.daemon import daemons
from tests.serve.maintenance.helpers import PROBLEM, QUICK, WARNING, everything, found, ill
from tests.serve.processes import lineage


def test_all_is_well(repo: Repo) -> None:
    """A fresh index in a sound repository gives no reason to do anything, and exit code 0."""
    assert ill(repo.path) == {}
    code, out, err = lineage("doctor", str(repo.path))
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].endswith("checks: all is well.")
    assert "✓ index             1 commits, 1 hunks" in out


def test_json(repo: Repo, place: Place) -> None:
    """For programs: the worst verdict, and each finding by name; problems give exit code 1."""
    code, out, _ = lineage("doctor", str(repo.path), "--json")
    said = json.loads(out)
    assert (code, said["verdict"]) == (0, "ok")
    assert {"name", "verdict", "found", "remedy"} == set(said["checks"][0])
    place.database.write_bytes(b"no database")
    code, out, _ = lineage("doctor", str(repo.path), "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "problem")


def test_nothing_is_touched(repo: Repo, home: Path, tmp_path: Path) -> None:
    """Every file, mode and time is what it was, and no daemon has been started."""
    before = everything(tmp_path)
    code, _, _ = lineage("doctor", str(repo.path), env=daemons.environment(home))
    assert code == 0
    assert everything(tmp_path) == before


def test_nothing_is_made(tmp_path: Path, home: Path) -> None:
    """Where there is neither a repository nor a home, none is made; what can be checked is."""
    checked = found(tmp_path)
    assert checked["repository"].verdict is WARNING
    assert "not made yet" in checked["home"].found
    assert {"git", "room", "daemon", "clients"} <= set(checked)
    assert not home.exists()


def test_no_git(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without git on PATH, or with one that is too old, the program is named."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found(repo.path)["git"].found == "no git program on PATH"
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\necho git version 2.30.9\n", encoding="ascii")
    fake.chmod(0o755)
    assert "2.30.9; 2.31 is the oldest" in found(repo.path)["git"].found
    assert git_cli.numbered("2.39.5 (Apple Git-154)") == (2, 39, 5)


@pytest.mark.usefixtures("home")
def test_repositories_that_cannot_be_read(tmp_path: Path) -> None:
    """A damaged history, another object format and a broken HEAD are problems with a way out."""
    repo = Repo.create(tmp_path / "damaged")
    sha = repo.commit_file("a.py", "a = 1\n")
    objects = repo.path / ".git" / "objects" / sha[:2] / sha[2:]
    objects.chmod(0o644)
    objects.write_bytes(b"nothing that zlib knows")
    assert found(repo.path)["repository"].verdict is PROBLEM
    other = Repo.create(tmp_path / "other", object_format="sha256")
    assert "SHA-256" in found(other.path)["repository"].found
    empty = Repo.create(tmp_path / "empty")
    assert "no commits yet" in found(empty.path)["repository"].found


@pytest.mark.parametrize(("option", "said"), [("--depth=1", "shallow"), ("--filter=blob:none", "partial")])
def test_clones_with_less(repo: Repo, tmp_path: Path, option: str, said: str) -> None:
    """A shallow or partial clone works with what is there, and is told how to get the rest."""
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.commit_file("b.py", "b = 1\n")
    clone = repo.clone(tmp_path / "clone", option)
    finding = found(clone.path)["repository"]
    assert finding.verdict is WARNING and said in finding.found and "git fetch" in finding.remedy


def test_unread_commits(repo: Repo, tmp_path: Path) -> None:
    """What a shallow clone lacks is fetched; git is asked what is missing where it should be there."""
    repo.commit_file("b.py", "b = 1\n")
    clone = repo.clone(tmp_path / "clone", "--depth=1")
    lineage("index", str(clone.path))
    finding = found(clone.path)["unreadable"]
    assert finding.found == f"1 not indexed: {repo.head[:12]}" and "--unshallow" in finding.remedy
    blob = repo.git("rev-parse", "HEAD:b.py")
    (repo.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    lineage("index", str(repo.path))
    assert "git fsck" in found(repo.path)["unreadable"].remedy


def test_another_users_repository(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """git's `safe.directory` protection is met as such."""
    if os.getuid():
        pytest.skip("only root gives files away")
    for path in (repo.path, *repo.path.rglob("*")):
        os.chown(path, 4321, 4321, follow_symlinks=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    finding = found(repo.path)["repository"]
    assert finding.verdict is PROBLEM and "safe.directory" in finding.remedy


def test_a_check_that_fails_stops_no_other(repo: Repo) -> None:
    """An error that nobody foresaw is a finding like any other."""

    def nothing(_: Subject) -> Finding:
        raise ZeroDivisionError("one by none")

    def broken(subject: Subject) -> Iterator[Finding]:
        yield nothing(subject)

    said = found(repo.path, {"broken": broken, **QUICK})
    assert said["broken"] == problem(
        "broken", "could not be checked: one by none", "LINEAGE_LOG=debug says where."
    )
    assert set(found(repo.path)) < set(said)


def test_the_page_needs_no_colour(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Signs tell what colours tell, and no control character of a path reaches the terminal."""
    one = problem("a check", "bad \x1b[31mpath\udcff", "Mend it.")
    assert doctor.is_ill(doctor.told([one, replace(one, verdict=WARNING)]))
    said = capfdbinary.readouterr().out.decode()
    assert said.splitlines() == [
        "✗ a check           bad ␛[31mpath\\udcff",
        "                    → Mend it.",
        "! a check           bad ␛[31mpath\\udcff",
        "                    → Mend it.",
        "2 checks: 1 problem, 1 warning.",
    ]
