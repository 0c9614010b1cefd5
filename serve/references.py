"""References in commit messages: issues, pull requests, tickets, advisories, other commits and trailers.

Numbers and URLs follow the rules of GitHub and GitLab, trailers those of git. See "References of commits" in
serve/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from serve.text import SHORT_SHA_DIGITS, escape_line

# References of each sort: named things, commits and trailers. Messages of updates quote whole changelogs.
MAX_REFERENCES: Final = 12
# Longer trailers are texts.
MAX_TRAILER_CHARS: Final = 200
# Longer messages are cut here; trailers are read from the whole message.
MAX_CHARS: Final = 20_000

ISSUE: Final = "issue"
CLOSES: Final = "closes"
PULL_REQUEST: Final = "pull_request"
# Kinds whose text is a number; the same number is one reference.
NUMBERED_KINDS: Final = frozenset({ISSUE, CLOSES, PULL_REQUEST})
TRAILER: Final = "trailer"

# Kinds that an answer's text shows beside a hit, and how many of them. Their texts have a fixed form.
SHOWN_KINDS: Final = NUMBERED_KINDS | {"ticket", "advisory"}
MAX_SHOWN: Final = 3
_COMMIT_KINDS: Final = frozenset({"reverts", "cherry_picked_from"})

_REPOSITORY: Final = r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)+"
# Without a leading zero or more digits, as in the colors `#000000` and `#112233ff`.
_NUMBER: Final = r"[1-9]\d{0,6}(?![\w-]|\.\d)"
_REFERENCE: Final = re.compile(
    rf"""
    https?://(?P<host>[\w.-]+)/(?P<url_repository>{_REPOSITORY}?)/(?:-/)?
      (?P<page>issues|work_items|pull|pulls|merge_requests)/(?P<url_number>{_NUMBER})(?:[/?#][^\s<>()\[\]]*)?
    | https?://[^\s<>()\[\]]+
    | \b(?P<advisory>CVE-\d{{4}}-\d{{4,7}}|GHSA(?:-[2-9cfghjmpqrvwx]{{4}}){{3}})\b
    | (?<![\w&/\#>.-])(?P<repository>{_REPOSITORY})?(?:(?P<sign>[\#!])|\b[Gg][Hh]-)(?P<number>{_NUMBER})(?!\]\()
    | (?<![\w/.-])(?P<ticket>[A-Z][A-Z0-9]{{1,9}}-[1-9]\d{{0,5}})(?![\w/-]|\.\d)
    """,
    re.VERBOSE | re.ASCII,
)
_COMMIT: Final = re.compile(
    r"This reverts commit (?P<reverts>[0-9a-f]{7,64})\b"
    r"|\(cherry picked from commit (?P<cherry_picked_from>[0-9a-f]{7,64})\b"
)
_CLOSING_WORD: Final = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+\Z", re.IGNORECASE)
_LIST_SEPARATOR: Final = re.compile(r"\s*(?:,\s*and\s|,|&|\sand\s)\s*", re.IGNORECASE)
# Characters before a number in which to look for a word that closes it.
_WORD_WINDOW: Final = 20
# Characters at the end of a subject in which to look for numbers of pull requests.
_SUFFIX_WINDOW: Final = 200
_MERGE_SUBJECT: Final = re.compile(r"Merge pull request \Z")
# The numbers that GitHub adds to the subject of a squashed pull request and of its backports.
_SQUASH_SUFFIX: Final = re.compile(r"(?:\s*\((?:#|[Gg][Hh]-)\d{1,7}\))+\Z")
# Not keys of tickets: encodings, digests, standards, protocols, licences, systems.
_OTHER_PREFIXES: Final = frozenset(
    [
        "AES",
        "AGPL",
        "ANSI",
        "ARM",
        "ASCII",
        "BASE",
        "BSD",
        "CC",
        "CP",
        "CRC",
        "CWE",
        "DES",
        "ECMA",
        "EPSG",
        "ES",
        "EUC",
        "FIPS",
        "GB",
        "GH",
        "GPL",
        "HMAC",
        "HTTP",
        "IEC",
        "IEEE",
        "IPV",
        "ISO",
        "JAVA",
        "JDK",
        "JSR",
        "KOI",
        "LATIN",
        "LGPL",
        "MD",
        "MIT",
        "MP",
        "MPEG",
        "MPL",
        "NIST",
        "PEP",
        "PKCS",
        "POSIX",
        "PY",
        "PYTHON",
        "RFC",
        "RIPEMD",
        "RSA",
        "SHA",
        "SSE",
        "SSL",
        "TLS",
        "UCS",
        "UTF",
        "UUID",
        "WCAG",
        "WINDOWS",
    ]
)
_TRAILER: Final = re.compile(r"([A-Za-z0-9-]+)[ \t]*:(.*)")
# Lines that git itself adds: with one of them, other lines of the paragraph need not be trailers.
_GENERATED_TRAILERS: Final = ("Signed-off-by: ", "(cherry picked from commit ")
# Left out: it certifies who wrote the change, and says nothing about it.
_OMITTED_TRAILER: Final = "signed-off-by"


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference in a commit message.

    `kind`: `issue` (also a pull request, where the message does not tell), `closes` (an issue that the commit closes),
    `pull_request`, `ticket` (`ABC-12`), `advisory` (CVE, GHSA), `reverts`, `cherry_picked_from` or `trailer`.
    `text`: `#12`, `owner/repo#12`, `group/project!12`, key, sha, or the trailer, such as `Reviewed-by: Ada`.
    """

    kind: str
    text: str


def parse_references(message: str, own_names: Collection[str] = ()) -> tuple[Reference, ...]:
    """Return the references of a commit message, each once, in order: things, then commits, then trailers.

    There are at most `MAX_REFERENCES` of each of these sorts.
    `own_names`: names of the repository in lower case, such as `owner/repo`, which are omitted before a number.
    """
    trailers = parse_trailers(message)
    references = (
        *_find_references(message, own_names),
        *_find_commits(message),
        *(reference for trailer in trailers for reference in _convert_trailer(*trailer, own_names)),
    )
    found: dict[str | Reference, Reference] = {}
    for reference in references:
        key = reference.text if reference.kind in NUMBERED_KINDS else reference
        if key not in found or found[key].kind == ISSUE:
            found[key] = reference
    sorts = (SHOWN_KINDS, _COMMIT_KINDS, {TRAILER})
    return tuple(
        reference
        for kinds in sorts
        for reference in islice(
            (reference for reference in found.values() if reference.kind in kinds), MAX_REFERENCES
        )
    )


def describe_evidence(
    references: Iterable[Reference], tag: str | None, copies: Sequence[str], shown_message: str
) -> str:
    """Return a phrase such as `#12 · in 2.3.0 · also 1f2e3d4c5b`; empty without evidence.

    It leaves out references that the shown part of the message has already.
    """
    shown_names = {reference.text for reference in _find_references(shown_message, ())}
    names = [
        reference.text
        for reference in references
        if reference.kind in SHOWN_KINDS and reference.text not in shown_names
    ]
    parts = (
        ", ".join(names[:MAX_SHOWN]),
        f"in {tag}" if tag else "",
        f"also {', '.join(sha[:SHORT_SHA_DIGITS] for sha in copies[:MAX_SHOWN])}" if copies else "",
    )
    return escape_line(" · ".join(filter(None, parts)))


def find_numbers(text: str, own_names: Collection[str] = ()) -> Iterator[Reference]:
    """Yield the issues and pull requests that a text names, however many, in order and each time it names them."""
    return (reference for reference in _find_references(text, own_names) if reference.kind in NUMBERED_KINDS)


def remove_squash_suffix(subject: str) -> str:
    """Return a subject without the numbers that GitHub adds at its end, as in `Fix x (#12)`."""
    return subject[: _find_squash_suffix(subject)] or subject


def find_pull_request(message: str, own_names: Collection[str] = ()) -> Reference | None:
    """Return the first pull request that a commit message names as its own; None if it names none."""
    references = parse_references(message, own_names)
    return next((reference for reference in references if reference.kind == PULL_REQUEST), None)


def parse_trailers(message: str) -> list[tuple[str, str]]:
    """Return the key and value of each trailer: of the lines `Key: value` at the end, as git finds them.

    They are the last paragraph, but not the first one, if it has only trailers; or if a line that git adds is among
    them, and trailers are a quarter of its lines. Lines that begin with white space continue a value.
    """
    lines = message.replace("\r\n", "\n").rstrip().split("\n")
    start = next((number for number in range(len(lines) - 1, -1, -1) if not lines[number].strip()), -1)
    block = lines[start + 1 :]
    if start < 0 or not any(line.strip() for line in lines[:start]):
        return []
    if not _is_trailer_block(block):
        return []
    trailers: list[tuple[str, list[str]]] = []
    for line in block:
        if line[:1].isspace() and trailers:
            trailers[-1][1].append(line.strip())
        elif match := _TRAILER.match(line):
            trailers.append((match[1], [match[2].strip()]))
    return [(key, " ".join(lines)) for key, lines in trailers]


def _is_trailer_block(lines: Iterable[str]) -> bool:
    """Return whether git takes a paragraph for trailers."""
    trailer_lines = other_lines = 0
    has_generated_line = is_trailer = False
    for line in lines:
        if line.startswith("#"):  # a comment
            continue
        if line.startswith(_GENERATED_TRAILERS):
            has_generated_line = is_trailer = True
        elif not line[:1].isspace():
            is_trailer = _TRAILER.match(line) is not None
        elif is_trailer:
            continue
        trailer_lines, other_lines = trailer_lines + is_trailer, other_lines + (not is_trailer)
    if has_generated_line:
        return trailer_lines * 3 >= other_lines
    return bool(trailer_lines) and not other_lines


def _convert_trailer(key: str, value: str, own_names: Collection[str]) -> Iterator[Reference]:
    """Yield the references of a trailer, if its value has nothing else; else the trailer itself."""
    if key.lower() == _OMITTED_TRAILER or not value:
        return
    trailer = f"{key}: {value}"
    references = list(_find_references(trailer, own_names))
    if references and not _REFERENCE.sub("", value[:MAX_CHARS]).strip(" ,;&"):
        yield from references
    else:
        yield Reference(TRAILER, trailer[:MAX_TRAILER_CHARS])


def _find_commits(message: str) -> Iterator[Reference]:
    for match in _COMMIT.finditer(message):
        kind = str(match.lastgroup)
        yield Reference(kind, match[kind])


def _find_references(message: str, own_names: Collection[str]) -> Iterator[Reference]:
    """Yield issues, pull requests, tickets and advisories, in the order of the message."""
    text = message.strip()[:MAX_CHARS]
    subject = text.partition("\n")[0].rstrip()
    squash_start = _find_squash_suffix(subject)
    closing_end = -_WORD_WINDOW - 1
    for match in _REFERENCE.finditer(text):
        if match["advisory"]:
            yield Reference("advisory", match["advisory"])
        elif match["ticket"]:
            if match["ticket"].partition("-")[0] not in _OTHER_PREFIXES:
                yield Reference("ticket", match["ticket"])
        elif number := _format_number(match, own_names):
            before = text[max(0, match.start() - _WORD_WINDOW) : match.start()]
            is_next = closing_end >= match.start() - _WORD_WINDOW and _LIST_SEPARATOR.fullmatch(
                text, closing_end, match.start()
            )
            if (
                "!" in number
                or match["page"] in {"pull", "pulls"}
                or _MERGE_SUBJECT.search(before)
                or squash_start <= match.start() < len(subject)
            ):
                kind = PULL_REQUEST
            elif is_next or _CLOSING_WORD.search(before):
                kind, closing_end = CLOSES, match.end()
            else:
                kind = ISSUE
            yield Reference(kind, number)


def _find_squash_suffix(subject: str) -> int:
    """Return where the numbers of pull requests at the end of a subject start; its length without any."""
    # A search of the whole subject would take quadratic time for long runs of spaces.
    suffix = _SQUASH_SUFFIX.search(subject, max(0, len(subject) - _SUFFIX_WINDOW))
    return suffix.start() if suffix else len(subject)


def _format_number(match: re.Match[str], own_names: Collection[str]) -> str:
    """Return the number of an issue or pull request after the name of another repository; "" for other matches."""
    repository, sign = match["repository"] or "", match["sign"] or "#"
    number = match["number"]
    if match["url_number"]:
        host, repository, number = match["host"].lower(), match["url_repository"], match["url_number"]
        sign = "!" if match["page"] == "merge_requests" else "#"
        if host not in {"github.com", "www.github.com", "gitlab.com"} and repository.lower() not in own_names:
            repository = f"{host}/{repository}"
    if not number or (sign == "!" and not repository):
        return ""
    return f"{'' if repository.lower() in own_names else repository}{sign}{number}"
