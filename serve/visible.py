"""Text of strangers made fit for a terminal."""

from __future__ import annotations

from typing import Final

# Histories are written by strangers: an escape sequence in a message must not reach the terminal.
_CONTROLS: Final = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
# Nor one of the marks that turn the direction of the text after them, so that it reads as what it is not. Letters that
# are written from right to left need none of them.
_TURNING: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE: Final = {
    **_CONTROLS,
    **dict.fromkeys(range(0x7F, 0xA0), "\N{REPLACEMENT CHARACTER}"),
    **{code: f"\\u{code:04x}" for code in _TURNING},
}


def visible(text: str) -> str:
    """The text with control characters, and marks that turn its direction, shown instead of obeyed."""
    return text.translate(_VISIBLE)
