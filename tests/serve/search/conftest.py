"""Fixture repository for searches."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.repos import FIRST_DATE, Repo, create_once

CONNECT = "def connect(host):\n    return retry(host, timeout=3)\n"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return create_repo(tmp_path / "repo")


@create_once
def create_repo(path: Path) -> Repo:
    """Create a repository of five commits, ten days apart, that all contain the word timeout."""
    repo = Repo.create(path)
    changes = [
        ("src/net/tcp.py", CONNECT, "Add a timeout to connect", "Ada Lovelace <ada@example.org>"),
        (
            "src/app.rs",
            "fn main() { timeout(); }\n",
            "Add a timeout to main",
            "Grace Hopper <grace@navy.example>",
        ),
        ("docs/guide.md", "# Guide\ntimeout\n", "Describe the timeout", "Ada Lovelace <ada@example.org>"),
        (
            "src/pool.py",
            "def acquire():\n    timeout()\n",
            "Add a timeout to acquire",
            "Ada Lovelace <ada@example.org>",
        ),
        (
            "tests/test_tcp.py",
            "def test_connect():\n    timeout()\n",
            "Test the timeout",
            "Grace Hopper <g@h.example>",
        ),
    ]
    for number, (name, content, message, author) in enumerate(changes):
        repo.write(name, content)
        repo.commit(message, date=FIRST_DATE + timedelta(days=10 * number), author=author)
    return repo
