"""Questions of tests, asked at one moment of an index whose vectors can be computed by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from serve.answers import FindAnswer
from serve.find.search import find_pattern
from serve.questions import FindRequest
from tests.repos import FIRST_DATE, Repo
from tests.serve.indexed import WordEncoder

NOW = FIRST_DATE + timedelta(days=100)


def ask(
    repo: Repo, home: Path, text: str = "timeout", *, now: datetime = NOW, **options: object
) -> FindAnswer:
    request = FindRequest(text, **options)  # type: ignore[arg-type]
    return find_pattern(request, repo.path, home, encoder=WordEncoder, now=now)
