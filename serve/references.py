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

# Maximum number of references of each group in `_GROUPS`, because some dependency updates quote whole changelogs.
MAX_REFERENCES: Final = 12
# Maximum number of characters of a trailer. A longer trailer is cut.
MAX_TRAILER_CHARS: Final = 200
# Number of characters at the start of a message in which to look for numbers, tickets and advisories.
MAX_SCANNED_CHARS: Final = 20_000

ISSUE: Final = "issue"
CLOSES: Final = "closes"
PULL_REQUEST: Final = "pull_request"
# Kinds of references to an issue or pull request. All references to one number count as one.
NUMBERED_KINDS: Final = frozenset({ISSUE, CLOSES, PULL_REQUEST})
TRAILER: Final = "trailer"
REVERTS: Final = "reverts"

# Kinds that the text of an answer shows beside a hit. They have short texts.
SHOWN_KINDS: Final = NUMBERED_KINDS | {"ticket", "advisory"}
# Maximum number of references, and of copies of a commit, that the text of an answer shows beside a hit.
MAX_SHOWN: Final = 3
# Groups of kinds, in the order in which `parse_references` returns their references.
_GROUPS: Final = (SHOWN_KINDS, frozenset({REVERTS, "cherry_picked_from"}), frozenset({TRAILER}))

_REPOSITORY: Final = r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)+"
# A number without a leading zero, of at most seven digits, and not followed by a letter, a hyphen or decimals. This
# excludes the colors `#000000` and `#112233ff`.
_NUMBER: Final = r"[1-9]\d{0,6}(?![\w-]|\.\d)"
# The alternatives: URL of an issue or pull request; any other URL, so that nothing inside it is found; advisory;
# `owner/repo#12`, `#12`, `group/project!12` or `GH-12`, but not as the text of a Markdown link; key of a ticket.
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
# Number of characters before a number in which to look for a word such as `closes`.
_WORD_WINDOW: Final = 20
# Number of characters at the end of a subject in which to look for numbers of pull requests.
_SUFFIX_WINDOW: Final = 200
_MERGE_PHRASE: Final = re.compile(r"Merge pull request \Z")
# The numbers that GitHub adds to the subject of a squashed pull request and of its backports.
_SQUASH_SUFFIX: Final = re.compile(r"(?:\s*\((?:#|[Gg][Hh]-)\d{1,7}\))+\Z")
# Prefixes that look like those of tickets: encodings, digests, standards, protocols, licences, systems.
_NON_TICKET: Final = re.compile(
    r"(?:AES|AGPL|ANSI|ARM|ASCII|BASE|BSD|CC|CP|CRC|CWE|DES|ECMA|EPSG|ES|EUC|FIPS|GB|GH|GPL|HMAC|HTTP|IEC"
    r"|IEEE|IPV|ISO|JAVA|JDK|JSR|KOI|LATIN|LGPL|MD|MIT|MP|MPEG|MPL|NIST|PEP|PKCS|POSIX|PY|PYTHON|RFC|RIPEMD"
    r"|RSA|SHA|SSE|SSL|TLS|UCS|UTF|UUID|WCAG|WINDOWS)-"
)
_TRAILER: Final = re.compile(r"([A-Za-z0-9-]+)[ \t]*:(.*)")
# Starts of lines that git itself adds. In a paragraph with such a line, not all lines have to be trailers.
_GENERATED_TRAILERS: Final = ("Signed-off-by: ", "(cherry picked from commit ")
# Key of the trailer that is left out, because it says nothing about the change.
_OMITTED_TRAILER: Final = "signed-off-by"


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference in a commit message.

    `kind`: `issue` (or a pull request that the message does not call one), `closes` (an issue that the commit closes),
    `pull_request`, `ticket`, `advisory` (CVE, GHSA), `reverts`, `cherry_picked_from` or `trailer`.
    `text`: number (`#12`, `owner/repo#12`, `group/project!12`), key of a ticket (`ABC-12`) or of an advisory, sha, or
    the trailer (`Reviewed-by: Ada`).
    """

    kind: str
    text: str


def parse_references(message: str, own_names: Collection[str] = ()) -> tuple[Reference, ...]:
    """Return the references of a commit message, each once.

    Issues, pull requests, tickets and advisories come first, then commits, then trailers.
    `own_names`: names of the repository in lower case, such as `owner/repo`. Before a number they are omitted, so that
    `owner/repo#12` becomes `#12`.
    """
    trailers = parse_trailers(message)
    references = (
        *_find_references(message, own_names),
        *_find_commits(message),
        *(reference for trailer in trailers for reference in _convert_trailer(*trailer, own_names)),
    )
    by_key: dict[str | Reference, Reference] = {}
    for reference in references:
        # `#12` and `closes #12` are one reference. Any other kind says more than `issue`.
        key = reference.text if reference.kind in NUMBERED_KINDS else reference
        if key not in by_key or by_key[key].kind == ISSUE:
            by_key[key] = reference
    groups = ([reference for reference in by_key.values() if reference.kind in kinds] for kinds in _GROUPS)
    return tuple(chain.from_iterable(group[:MAX_REFERENCES] for group in groups))


def describe_evidence(
    references: Collection[Reference],
    tag: str | None,
    copies: Sequence[str],
    reverted_by: str | None,
    shown_message: str,
) -> str:
    """Return a phrase such as `#12, closes #3 · first tag 2.3.0 · also 1f2e3d4c5b`; empty without evidence.

    `shown_message`: part of the message that the answer shows. References in this part are left out.
    """
    shown_names = {reference.text for reference in _find_references(shown_message, ())}
    shown = [
        reference
        for reference in references
        if reference.kind in SHOWN_KINDS and reference.text not in shown_names
    ][:MAX_SHOWN]
    names = [reference.text for reference in shown if reference.kind != CLOSES]
    if closed := [reference.text for reference in shown if reference.kind == CLOSES]:
        names.append(f"closes {', '.join(closed)}")
    reverted = [
        reference.text[:SHORT_SHA_DIGITS]
        for reference in references
        if reference.kind == REVERTS and reference.text not in shown_message
    ]
    parts = (
        ", ".join(names),
        f"first tag {tag}" if tag else "",
        f"also {', '.join(sha[:SHORT_SHA_DIGITS] for sha in copies[:MAX_SHOWN])}" if copies else "",
        f"reverts {', '.join(reverted[:MAX_SHOWN])}" if reverted else "",
        f"reverted by {reverted_by[:SHORT_SHA_DIGITS]}" if reverted_by else "",
    )
    return escape_line(" · ".join(filter(None, parts)))


def find_numbers(text: str, own_names: Collection[str] = ()) -> Iterator[Reference]:
    """Return an iterator of all issues and pull requests in a text, in the order of the text, with repetitions."""
    return (reference for reference in _find_references(text, own_names) if reference.kind in NUMBERED_KINDS)


def remove_squash_suffix(subject: str) -> str:
    """Return a subject without the numbers that GitHub adds at its end, as in `Fix x (#12)`.

    If the subject consists of such numbers, return it unchanged.
    """
    return subject[: _find_squash_suffix_start(subject)] or subject


def find_pull_request(message: str, own_names: Collection[str] = ()) -> Reference | None:
    """Return the first pull request among the references of a commit message; None if there is none."""
    references = parse_references(message, own_names)
    return next((reference for reference in references if reference.kind == PULL_REQUEST), None)


def parse_trailers(message: str) -> list[tuple[str, str]]:
    """Return the key and value of each trailer, by the rules of git.

    A trailer is a line `Key: value` in the last paragraph. Lines after it that begin with white space continue its
    value. The last paragraph has trailers if all its lines are trailers. If git added a line, such as `Signed-off-by`,
    a quarter is enough. A message of only one paragraph has no trailers.
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
            _, value_lines = trailers[-1]
            value_lines.append(line.strip())
        elif match := _TRAILER.match(line):
            trailers.append((match[1], [match[2].strip()]))
    return [(key, " ".join(value_lines)) for key, value_lines in trailers]


def _is_trailer_block(lines: Iterable[str]) -> bool:
    """Return whether git reads trailers from the lines of a paragraph."""
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
    """Yield the references in a trailer if its value consists of them, as in `Fixes: #12`; else the trailer itself.

    Yield nothing for `Signed-off-by` and for a trailer without a value.
    """
    if key.lower() == _OMITTED_TRAILER or not value:
        return
    trailer = f"{key}: {value}"
    references = list(_find_references(trailer, own_names))
    if references and not _REFERENCE.sub("", value[:MAX_SCANNED_CHARS]).strip(" ,;&"):
        yield from references
    else:
        yield Reference(TRAILER, trailer[:MAX_TRAILER_CHARS])


def _find_commits(message: str) -> Iterator[Reference]:
    """Yield the commits that a message names as reverted, or as the source of a cherry-pick."""
    for match in _COMMIT.finditer(message):
        kind = str(match.lastgroup)
        yield Reference(kind, match[kind])


def _find_references(message: str, own_names: Collection[str]) -> Iterator[Reference]:
    """Yield issues, pull requests, tickets and advisories, in the order of the message."""
    text = message.strip()[:MAX_SCANNED_CHARS]
    subject = text.partition("\n")[0].rstrip()
    squash_start = _find_squash_suffix_start(subject)
    # End of the last closed number, because `closes #1, #2` closes both. The initial value is too far from any number.
    closing_end = -_WORD_WINDOW - 1
    for match in _REFERENCE.finditer(text):
        if match["advisory"]:
            yield Reference("advisory", match["advisory"])
        elif match["ticket"]:
            if not _NON_TICKET.match(match["ticket"]):
                yield Reference("ticket", match["ticket"])
        elif number := _format_number(match, own_names):
            before = text[max(0, match.start() - _WORD_WINDOW) : match.start()]
            is_next_in_list = (
                closing_end >= match.start() - _WORD_WINDOW
                and _LIST_SEPARATOR.fullmatch(text, closing_end, match.start()) is not None
            )
            is_pull_request = (
                "!" in number  # GitLab's sign of a merge request
                or match["page"] in {"pull", "pulls"}
                or _MERGE_PHRASE.search(before) is not None
                or squash_start <= match.start() < len(subject)
            )
            if is_pull_request:
                kind = PULL_REQUEST
            elif is_next_in_list or _CLOSING_WORD.search(before):
                kind, closing_end = CLOSES, match.end()
            else:
                kind = ISSUE
            yield Reference(kind, number)


def _find_squash_suffix_start(subject: str) -> int:
    """Return the start of the numbers that GitHub adds to a subject, or the length of the subject if there are none."""
    # A search of the whole subject would take quadratic time for long runs of spaces.
    suffix = _SQUASH_SUFFIX.search(subject, max(0, len(subject) - _SUFFIX_WINDOW))
    return suffix.start() if suffix else len(subject)


def _format_number(match: re.Match[str], own_names: Collection[str]) -> str:
    """Return the number of a matched issue or pull request, such as `#12` or `owner/repo#12`.

    Return "" for other matches, and for a merge request without a project (`!12`).
    """
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
