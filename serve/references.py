"""References in commit messages: issues, pull requests, tickets, advisories, other commits and trailers.

Numbers and URLs follow the rules of GitHub and GitLab, trailers those of git. See "References of commits" in
serve/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from serve.text import SHORT_SHA_DIGITS, escape_line

# References of each group in `_GROUPS`. The messages of some dependency updates quote whole changelogs.
MAX_REFERENCES: Final = 12
# A longer trailer is cut.
MAX_TRAILER_CHARS: Final = 200
# Numbers, tickets and advisories are found in the first characters of a message, trailers in the whole message.
MAX_CHARS: Final = 20_000

ISSUE: Final = "issue"
CLOSES: Final = "closes"
PULL_REQUEST: Final = "pull_request"
# Kinds whose text is a number; the same number is one reference.
NUMBERED_KINDS: Final = frozenset({ISSUE, CLOSES, PULL_REQUEST})
TRAILER: Final = "trailer"

# Kinds that an answer's text shows beside a hit, because their texts are short.
SHOWN_KINDS: Final = NUMBERED_KINDS | {"ticket", "advisory"}
# References, and copies of a commit, that an answer's text shows beside a hit.
MAX_SHOWN: Final = 3
# Groups of kinds, in the order of an answer.
_GROUPS: Final = (SHOWN_KINDS, frozenset({"reverts", "cherry_picked_from"}), frozenset({TRAILER}))

_REPOSITORY: Final = r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)+"
# A number without a leading zero and of at most seven digits, unlike the colors `#000000` and `#112233ff`.
_NUMBER: Final = r"[1-9]\d{0,6}(?![\w-]|\.\d)"
# URL of an issue or pull request; any other URL, so that nothing within it counts; advisory; `owner/repo#12`, `#12`,
# `!12` or `GH-12`, but not the text of a Markdown link; key of a ticket.
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
    """Return the references of a commit message, each once: issues and the like, then commits, then trailers.

    `own_names`: names of the repository in lower case, such as `owner/repo`, which are omitted before a number.
    """
    trailers = parse_trailers(message)
    references = (
        *_find_references(message, own_names),
        *_find_commits(message),
        *(reference for trailer in trailers for reference in _convert_trailer(*trailer, own_names)),
    )
    by_key: dict[str | Reference, Reference] = {}
    for reference in references:
        # `#12` and `closes #12` are one reference, of the kind that says more.
        key = reference.text if reference.kind in NUMBERED_KINDS else reference
        if key not in by_key or by_key[key].kind == ISSUE:
            by_key[key] = reference
    groups = ([reference for reference in by_key.values() if reference.kind in kinds] for kinds in _GROUPS)
    return tuple(chain.from_iterable(group[:MAX_REFERENCES] for group in groups))


def describe_evidence(
    references: Iterable[Reference], tag: str | None, copies: Sequence[str], shown_message: str
) -> str:
    """Return a phrase such as `#12 · first tag 2.3.0 · also 1f2e3d4c5b`; empty without evidence.

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
        f"first tag {tag}" if tag else "",
        f"also {', '.join(sha[:SHORT_SHA_DIGITS] for sha in copies[:MAX_SHOWN])}" if copies else "",
    )
    return escape_line(" · ".join(filter(None, parts)))


def find_numbers(text: str, own_names: Collection[str] = ()) -> Iterator[Reference]:
    """Yield all issues and pull requests that a text names, in order; one that is named twice comes twice."""
    return (reference for reference in _find_references(text, own_names) if reference.kind in NUMBERED_KINDS)


def remove_squash_suffix(subject: str) -> str:
    """Return a subject without the numbers that GitHub adds at its end, as in `Fix x (#12)`."""
    return subject[: _find_squash_suffix(subject)] or subject


def find_pull_request(message: str, own_names: Collection[str] = ()) -> Reference | None:
    """Return the first pull request that a commit message names as its own; None if it names none."""
    references = parse_references(message, own_names)
    return next((reference for reference in references if reference.kind == PULL_REQUEST), None)


def parse_trailers(message: str) -> list[tuple[str, str]]:
    """Return the key and value of each trailer, a line `Key: value` in the last paragraph, by the rules of git.

    The last paragraph has trailers if it consists of them, or if a quarter of its lines are trailers and git added one
    of these. The first paragraph never has any. Lines that begin with white space continue a value.
    """
    lines = message.replace("\r\n", "\n").rstrip().split("\n")
    blank_lines = [number for number, line in enumerate(lines) if not line.strip()]
    last_blank = blank_lines[-1] if blank_lines else 0
    block = lines[last_blank + 1 :]
    is_first_paragraph = not any(line.strip() for line in lines[:last_blank])
    if is_first_paragraph or not _is_trailer_block(block):
        return []
    trailers: list[tuple[str, list[str]]] = []
    for line in block:
        if line[:1].isspace() and trailers:
            trailers[-1][1].append(line.strip())
        elif match := _TRAILER.match(line):
            trailers.append((match[1], [match[2].strip()]))
    return [(key, " ".join(lines)) for key, lines in trailers]


def _is_trailer_block(lines: Iterable[str]) -> bool:
    """Return whether git reads trailers from a paragraph."""
    trailer_lines = other_lines = 0
    has_generated_line = is_trailer = False
    for line in lines:
        if line.startswith("#"):  # git ignores comments
            continue
        if line.startswith(_GENERATED_TRAILERS):
            has_generated_line = is_trailer = True
        elif not line[:1].isspace():
            is_trailer = _TRAILER.match(line) is not None
        elif is_trailer:  # this line continues the trailer
            continue
        trailer_lines += is_trailer
        other_lines += not is_trailer
    if has_generated_line:
        return trailer_lines * 3 >= other_lines
    return bool(trailer_lines) and not other_lines


def _convert_trailer(key: str, value: str, own_names: Collection[str]) -> Iterator[Reference]:
    """Yield the references in a trailer if its value has no other text, as in `Fixes: #12`; else the trailer itself."""
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
    # End of the last number that the message closes, at first far before the text: `closes #1, #2` closes both.
    closing_end = -_WORD_WINDOW - 1
    for match in _REFERENCE.finditer(text):
        if match["advisory"]:
            yield Reference("advisory", match["advisory"])
        elif match["ticket"]:
            if match["ticket"].partition("-")[0] not in _OTHER_PREFIXES:
                yield Reference("ticket", match["ticket"])
        elif number := _format_number(match, own_names):
            before = text[max(0, match.start() - _WORD_WINDOW) : match.start()]
            is_next_in_list = (
                closing_end >= match.start() - _WORD_WINDOW
                and _LIST_SEPARATOR.fullmatch(text, closing_end, match.start()) is not None
            )
            if (
                "!" in number
                or match["page"] in {"pull", "pulls"}
                or _MERGE_SUBJECT.search(before)
                or squash_start <= match.start() < len(subject)
            ):
                kind = PULL_REQUEST
            elif is_next_in_list or _CLOSING_WORD.search(before):
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
    """Return the number of a matched issue or pull request, such as `#12` or `owner/repo#12`; "" for other matches."""
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
