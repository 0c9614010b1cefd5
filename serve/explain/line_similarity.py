"""Similarity of lines of code, and of the lines around them.

Two lines can be equal or similar, or one can be a part of the other. Common words, such as keywords, have a low weight.
An anchor is a long name or a long literal, which lines seldom share by chance. The context score of two lines is the
similarity of the lines around the first to the lines around the second.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Final

# A word, or another single character except white space.
TOKEN: Final = re.compile(r"\w+|[^\w\s]")
WORD: Final = re.compile(r"[^\W\d]\w*")
# Words of a name: `parseHTTPHeader2` has `parse`, `HTTP`, `Header` and `2`.
NAME_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
# White space of ASCII except the line break.
ASCII_SPACES: Final = bytes(code for code in range(128) if chr(code).isspace() and chr(code) != "\n")
# Texts in quotes or backquotes.
LITERAL: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|`([^`]*)`")
# Words that lines share because of the language or by habit.
_COMMON_TEXT: Final = """
abstract and any args arguments array as assert async await bool boolean box break byte callable case catch char
class clone const constructor continue data def default del delete dict do double elif else end enum err error
except exception exports extends extern false final finally float fn for from fun func function get global if
impl implements import in instanceof int integer interface internal is it iterable key kwargs lambda len let
list long map mapping match mut name nil none not null number object of ok optional options or override package
pass path print private protected prototype pub public raise req require res return self sequence set short some
static str string struct super switch test the this throw throwable throws to true try tuple type typeof
undefined unwrap use val value var vec void when where while with yield
"""
COMMON_WORDS: Final = frozenset(_COMMON_TEXT.split())
# Weight of common words, and of words shorter than MIN_WORD_LENGTH. Other words have the weight 1.
COMMON_WEIGHT: Final = 0.25
MIN_WORD_LENGTH: Final = 3
# Minimum length of a name that is an anchor.
MIN_ANCHOR_NAME_LENGTH: Final = 8
# Minimum length of a literal. Shorter texts in quotes do not count as literals.
MIN_LITERAL_LENGTH: Final = 9
# Minimum length of a name that is a search term for leads (possible earlier commits of a line). It is less than
# MIN_ANCHOR_NAME_LENGTH, because a lead is only a guess.
MIN_SEARCHED_NAME_LENGTH: Final = 6
# Minimum weight of a line's words to look up its origin. Lighter lines (braces, single keywords) recur everywhere.
MIN_WEIGHT: Final = 1.0
# Entries of each cache, in all about 20 MB in the daemon. A commit with more changed lines replaces all entries.
CACHE_SIZE: Final = 4_096

# Maximum number of lines with the same text or word that are compared with a line. More frequent words are skipped.
MAX_CANDIDATES: Final = 40
# Similar lines are looked up by this many of the rarest words of a line, because similar lines share most words.
MAX_SEARCH_WORDS: Final = 3

# Rules for a line that is a part of another line, as after a split or a join. The words that both lines share must have
# at least MIN_CONTAINMENT of the weight of the lighter line's words.
MIN_CONTAINMENT: Final = 0.8
MIN_CONTAINED_WEIGHT: Final = 2.0  # minimum weight of the shared words, because many lines share a word
CONTAINED_FACTOR: Final = 0.8  # below 1, because an edited line with the same words is a better source
# Largest bonus for shared words, and the weight of the shared words that gives half of it.
CONTAINED_BONUS: Final = 0.1
CONTAINED_HALF_WEIGHT: Final = 3.0
NO_ANCHOR_FACTOR: Final = 0.7  # without a shared anchor, because unrelated lines can have the same words
# Scores and limits for a line whose tokens are all in a longer one, in order, as after a type was annotated or
# parameters were joined into one line.
WHOLE_SCORE: Final = 0.55  # with too few shared words for the rules above
WHOLE_ANCHOR_SCORE: Final = 0.9  # with a shared anchor and enough shared words
MIN_WHOLE_TOKENS: Final = 4
MIN_WHOLE_WEIGHT: Final = 1.0
# Lines with more characters, not counting white space (minified files, data), are compared only for equality.
MAX_LINE_CHARACTERS: Final = 1_000

# The context score is computed from this many nonblank lines before a line, and as many after it.
CONTEXT_LINES: Final = 2
# The context score is a weighted mean. A line without words, such as a brace, has this weight. Other lines have at
# most the weight 1.
MIN_CONTEXT_WEIGHT: Final = 0.1
# A removed line is not the source of an added line if its similarity to another added line is higher by more than this.
RIVAL_ADVANTAGE: Final = 0.1
# A line of at least MIN_SPLIT_TOKENS was split if nearby added lines have MIN_SPLIT_SHARE of its tokens, in order. An
# added line is one of its parts if MIN_PART_SHARE of the words of the added line are from the split line.
MIN_SPLIT_TOKENS: Final = 4
MIN_SPLIT_SHARE: Final = 0.8
MIN_PART_SHARE: Final = 0.5
# Between the parts, at most this many lines may have no token of the split line, such as lines with new arguments.
MAX_SPLIT_GAPS: Final = 3
# A removed line was not split if an added line with new tokens is more similar to it than this: that is an edit of it.
MAX_PART_SIMILARITY: Final = 0.6
# Maximum number of tokens of the old lines, and of the new lines, in which splits are searched: 600 take up to 30 ms.
MAX_SPLIT_TOKENS: Final = 600
# Minimum weight and context score of a copied line. Most moved lines need less, because a copied line was not removed,
# and short lines can be equal by chance.
MIN_COPY_WEIGHT: Final = 2.0
MIN_COPY_CONTEXT_SCORE: Final = 0.7


@dataclass(frozen=True, slots=True)
class LineFeatures:
    """Features by which lines are compared. A line whose key is longer than MAX_LINE_CHARACTERS has only the key.

    `key`: text without white space. `words`: names, their parts, and literals. `weight`: total weight of the words.
    """

    key: str
    tokens: tuple[str, ...]
    words: frozenset[str]
    anchors: frozenset[str]
    weight: float


@lru_cache(maxsize=CACHE_SIZE)
def extract_features(line: str) -> LineFeatures:
    """Return the features of a line."""
    key = build_key(line)
    if len(key) > MAX_LINE_CHARACTERS:
        return LineFeatures(key, (), frozenset(), frozenset(), 0.0)
    names = WORD.findall(line)
    literals = extract_literals(line)
    words = _collect_words(names, literals)
    long_names = _select_uncommon_names(names, MIN_ANCHOR_NAME_LENGTH)
    return LineFeatures(
        key=key,
        tokens=tuple(TOKEN.findall(line)),
        words=words,
        anchors=frozenset(long_names + literals),
        weight=weigh_words(words),
    )


def extract_words(line: str) -> frozenset[str]:
    """Return the words of a line: its names, their parts, and its literals; none if it is very long."""
    if len(line) > MAX_LINE_CHARACTERS and len(build_key(line)) > MAX_LINE_CHARACTERS:
        return frozenset()
    return _collect_words(WORD.findall(line), extract_literals(line))


def _collect_words(names: Iterable[str], literals: Iterable[str]) -> frozenset[str]:
    return frozenset(map(str.lower, names)).union(literals, *map(split_name, names))


def _select_uncommon_names(names: Iterable[str], min_length: int) -> list[str]:
    return [name for name in names if len(name) >= min_length and name.lower() not in COMMON_WORDS]


def build_key(line: str) -> str:
    """Return a line without white space. Lines with the same key count as equal."""
    return "".join(line.split())


def build_keys(lines: Sequence[str]) -> list[str]:
    """Return the key of each line."""
    if not lines:
        return []
    # Deleting bytes from all lines at once takes a tenth of the time.
    text = "\n".join(lines).encode().translate(None, ASCII_SPACES).decode()
    keys = text.split("\n")
    return keys if text.isascii() else [key if key.isascii() else build_key(key) for key in keys]


@lru_cache(maxsize=CACHE_SIZE)
def split_name(name: str) -> tuple[str, ...]:
    """Return the lower-case words of a name, such as `max` and `retries` for `maxRetries` and `MAX_RETRIES`.

    Words shorter than MIN_WORD_LENGTH are left out. If all words are that short, the name itself is the only word.
    """
    words = tuple(part.lower() for part in NAME_PART.findall(name) if len(part) >= MIN_WORD_LENGTH)
    return words or (name.lower(),)


def extract_literals(line: str) -> list[str]:
    """Return the literals of a line that are long enough to be recognized elsewhere."""
    literals = ("".join(groups) for groups in LITERAL.findall(line))
    return [text for text in literals if len(text) >= MIN_LITERAL_LENGTH]


@lru_cache(maxsize=CACHE_SIZE)
def weigh_word(word: str) -> float:
    """Return 1 for a word, and less for a short or common one."""
    return COMMON_WEIGHT if len(word) < MIN_WORD_LENGTH or word.lower() in COMMON_WORDS else 1.0


def weigh_words(words: frozenset[str]) -> float:
    """Return the total weight of words."""
    return sum(map(weigh_word, words))


@lru_cache(maxsize=CACHE_SIZE)
def compute_similarity(first: LineFeatures, second: LineFeatures) -> float:
    """Return the similarity of two lines, 0 to 1: the mean of the tokens' LCS ratio and the words' Dice ratio.

    It is 0 if different lines share only short or common words, such as `fn len(&self) {` and `fn get(&self) {`.
    """
    if first.key == second.key:
        return 1.0
    dice = compute_dice(first, second)
    if not dice:
        return 0.0
    return (compute_token_similarity(first, second) + dice) / 2


def compute_token_similarity(first: LineFeatures, second: LineFeatures) -> float:
    """Return the LCS ratio of the tokens of two lines, 0 to 1, even if they share only common words."""
    length = len(first.tokens) + len(second.tokens)
    return 2 * count_common_tokens(first.tokens, second.tokens) / length if length else 0.0


def compute_dice(first: LineFeatures, second: LineFeatures) -> float:
    """Return the weighted Dice ratio of the words of two lines, 0 to 1; 0 if they share only short or common words."""
    shared_words = first.words & second.words
    if not any(weigh_word(word) == 1 for word in shared_words):
        return 0.0
    return 2 * weigh_words(shared_words) / (first.weight + second.weight)


def compute_containment(first: LineFeatures, second: LineFeatures) -> float:
    """Return the score of one line as a part of the other, 0 to 0.9; 0 if neither is a part of the other."""
    shared_weight = weigh_words(first.words & second.words)
    smaller_weight = min(first.weight, second.weight)
    if shared_weight < MIN_CONTAINED_WEIGHT or shared_weight < MIN_CONTAINMENT * smaller_weight:
        is_whole = shared_weight >= MIN_WHOLE_WEIGHT and _is_whole_part(first, second)
        return WHOLE_SCORE if is_whole else 0.0
    if first.anchors & second.anchors and _is_whole_part(first, second):
        return WHOLE_ANCHOR_SCORE
    smaller_count = min(len(first.tokens), len(second.tokens))
    token_share = count_common_tokens(first.tokens, second.tokens) / smaller_count
    score = CONTAINED_FACTOR * min(shared_weight / smaller_weight, token_share)
    score += CONTAINED_BONUS * shared_weight / (shared_weight + CONTAINED_HALF_WEIGHT)
    return score if first.anchors & second.anchors else NO_ANCHOR_FACTOR * score


def _is_whole_part(first: LineFeatures, second: LineFeatures) -> bool:
    """Check whether one line has all tokens of the other: in one piece, or in order with gaps if both start alike."""
    shorter, longer = sorted((first, second), key=lambda line: len(line.tokens))
    if len(shorter.tokens) < MIN_WHOLE_TOKENS:
        return False
    if f" {' '.join(shorter.tokens)} " in f" {' '.join(longer.tokens)} ":
        return True
    starts_alike = shorter.tokens[0] == longer.tokens[0]
    return starts_alike and count_common_tokens(shorter.tokens, longer.tokens) == len(shorter.tokens)


def count_common_tokens(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence (LCS), by the bit-parallel algorithm of Hyyrö (2004)."""
    positions: dict[str, int] = {}
    for index, token in enumerate(first):
        positions[token] = positions.get(token, 0) | 1 << index
    mask = (1 << len(first)) - 1
    row = mask
    for token in second:
        matches = row & positions.get(token, 0)
        row = (row + matches | row - matches) & mask
    return len(first) - row.bit_count()


def find_search_term(line: str) -> str:
    """Return the part of a line by which to search it elsewhere: its longest literal, or else its longest name.

    Short literals, short names and names that are common in code do not count. If nothing is left, return an empty
    text.
    """
    literals = extract_literals(line)
    if literals:
        return max(literals, key=len)
    names = _select_uncommon_names(WORD.findall(line), MIN_SEARCHED_NAME_LENGTH)
    return max(names, key=len, default="")


def compute_context_score(
    lines: Sequence[str], number: int, old_lines: Sequence[str], old_number: int
) -> float:
    """Return how similar the lines around two lines are, 0 to 1. Lines with more words count more.

    `number`, `old_number`: numbers of the two lines in `lines` and `old_lines`, from 1.
    """
    total = weights = 0.0
    for step in (-1, 1):
        neighbours = zip(
            _iter_nonblank(lines, number - 1, step),
            _iter_nonblank(old_lines, old_number - 1, step),
            strict=False,
        )
        for (new, old), _ in zip(neighbours, range(CONTEXT_LINES), strict=False):
            weight = max(MIN_CONTEXT_WEIGHT, min(1.0, new.weight))
            weights += weight
            total += weight * compute_similarity(new, old)
    return total / weights if weights else 0.0


def is_copy(lines: Sequence[str], number: int, old_lines: Sequence[str], old_number: int) -> bool:
    """Check whether a line is a copy of an equal line of the parent, by the similarity of the lines around them."""
    return compute_context_score(lines, number, old_lines, old_number) >= MIN_COPY_CONTEXT_SCORE


def find_split_lines(old_texts: Sequence[str], texts: Sequence[str]) -> dict[int, int]:
    """Find old lines that were split into several lines, the parts.

    Return a dict from the position of each part in `texts` to the position of its old line in `old_texts`. The tokens
    of all lines are aligned at once, so that wrapped arguments and prose are found.
    """
    old_lines, lines = ([extract_features(text).tokens for text in group] for group in (old_texts, texts))
    if max(sum(map(len, old_lines)), sum(map(len, lines))) > MAX_SPLIT_TOKENS:
        return {}
    sources: dict[int, int] = {}
    for old_position, parts in _align_tokens(old_lines, lines).items():
        old_line = old_lines[old_position]
        if (
            len(old_line) >= MIN_SPLIT_TOKENS
            and sum(map(len, parts.values())) >= MIN_SPLIT_SHARE * len(old_line)
            and max(parts) - min(parts) < len(parts) + MAX_SPLIT_GAPS
            and not any(_is_edit(old_texts[old_position], text) for text in texts)
        ):
            for position, tokens in parts.items():
                words = list(filter(WORD.match, tokens))
                min_count = MIN_PART_SHARE * len(list(filter(WORD.match, lines[position])))
                if len(words) >= min_count and any(weigh_word(word) == 1 for word in words):
                    sources[position] = old_position
    return sources


def _align_tokens(
    old_lines: Sequence[Sequence[str]], lines: Sequence[Sequence[str]]
) -> dict[int, dict[int, list[str]]]:
    """Align all tokens. Return the tokens that each old line shares with each line, by the positions of both lines."""
    old_tokens, tokens = (
        [(token, position) for position, line in enumerate(group) for token in line]
        for group in (old_lines, lines)
    )
    matcher = SequenceMatcher(
        None, [token for token, _ in old_tokens], [token for token, _ in tokens], autojunk=False
    )
    shared: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for old_start, start, size in matcher.get_matching_blocks():
        for offset in range(size):
            token, old_position = old_tokens[old_start + offset]
            shared[old_position][tokens[start + offset][1]].append(token)
    return shared


def _is_edit(old_text: str, text: str) -> bool:
    """Check whether a line is an edit of an old line: similar, and with tokens that the old line lacks."""
    old, new = extract_features(old_text), extract_features(text)
    return is_similarity_above(new, old, MAX_PART_SIMILARITY) and (
        count_common_tokens(new.tokens, old.tokens) < len(new.tokens)
    )


def has_better_rival(removed: LineFeatures, added_texts: Iterable[str], similarity: float) -> bool:
    """Check whether the similarity of one of the added lines to a removed line exceeds `similarity` by RIVAL_ADVANTAGE.

    `similarity`: similarity of the removed line and the line that may have come from it.
    """
    limit = similarity + RIVAL_ADVANTAGE
    added_lines = map(extract_features, added_texts)
    return limit < 1 and any(is_similarity_above(added, removed, limit) for added in added_lines)


def is_similarity_above(first: LineFeatures, second: LineFeatures, limit: float) -> bool:
    """Check whether the similarity of two lines exceeds `limit`."""
    # The quick Dice ratio bounds the similarity, except of equal lines without words: these are False here.
    upper_bound = (1 + compute_dice(first, second)) / 2
    return upper_bound > limit and compute_similarity(first, second) > limit


def _iter_nonblank(lines: Sequence[str], index: int, step: int) -> Iterator[LineFeatures]:
    """Yield the features of the nonblank lines after the line at `index` (`step` 1), or before it (`step` -1)."""
    index += step
    while 0 <= index < len(lines):
        features = extract_features(lines[index])
        if features.key:
            yield features
        index += step


class WordIndex:
    """Index of lines by their words. The lines are searched for a word at its first lookup.

    `numbers`: for each line, the number by which it is returned. `is_excluded`: function that gets such a number and
    returns whether to leave out the line.
    """

    def __init__(
        self, texts: Sequence[str], numbers: Sequence[int], is_excluded: Callable[[int], bool] | None = None
    ) -> None:
        self._texts = texts
        self._numbers = numbers
        self._is_excluded = is_excluded
        self._words: dict[int, frozenset[str]] = {}  # by the position of a line, once extracted
        self._numbers_by_word: dict[str, list[int]] = {}

    def find_by_rare_words(self, features: LineFeatures) -> Iterator[int]:
        """Yield the numbers of the lines that share a word of a line, if at most MAX_CANDIDATES lines have it."""
        counts = ((len(self._find(word)), word) for word in features.words)
        rare_words = sorted((count, word) for count, word in counts if 0 < count <= MAX_CANDIDATES)
        found = (self._find(word) for _, word in rare_words[:MAX_SEARCH_WORDS])
        yield from dict.fromkeys(chain.from_iterable(found))

    def _find(self, word: str) -> list[int]:
        """Return the numbers of lines with a word: at most MAX_CANDIDATES + 1, if it is too frequent."""
        if word not in self._numbers_by_word:
            numbers = (
                self._numbers[position]
                for position in self._find_positions(word.casefold())
                if not (self._is_excluded and self._is_excluded(self._numbers[position]))
                and word in self._extract_words(position)
            )
            self._numbers_by_word[word] = list(islice(numbers, MAX_CANDIDATES + 1))
        return self._numbers_by_word[word]

    def _find_positions(self, folded_word: str) -> Iterator[int]:
        """Yield the positions of the lines that may have a word, which is given in folded case."""
        folded_text, position, line_start = self._folded_text, 0, 0
        start = folded_text.find(folded_word)
        while start >= 0:
            end = start + len(folded_word)
            if self._is_inside_word(start, end):
                start = folded_text.find(folded_word, start + 1)
                continue
            position += folded_text.count("\n", line_start, start)
            yield position
            position, line_start = position + 1, folded_text.index("\n", start) + 1
            start = folded_text.find(folded_word, line_start)

    def _is_inside_word(self, start: int, end: int) -> bool:
        """Return True if a part of the text is certainly inside a longer word, such as `port` in `import`."""
        text = self._text
        if len(text) != len(self._folded_text):
            return False
        # A lower-case letter outside ASCII can begin a part of a name: `ABCé` has the parts `ABC` and `é`.
        starts_inside = text[start].isascii() and text[start].islower() and text[start - 1 : start].isalpha()
        return starts_inside or (text[end - 1].islower() and text[end].islower())

    @cached_property
    def _text(self) -> str:
        return "".join(f"{text}\n" for text in self._texts)

    @cached_property
    def _folded_text(self) -> str:
        # `casefold` works character by character, so if a line contains a word, its folded text has the folded word.
        return self._text.casefold()

    def _extract_words(self, position: int) -> frozenset[str]:
        # Extracting words takes a hundred times as long as searching the line for a text.
        if position not in self._words:
            self._words[position] = extract_words(self._texts[position])
        return self._words[position]
