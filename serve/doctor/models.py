"""The bundled model files, whether a text embeds, and whether a question is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline import bundled
from pipeline.cross_encoder import Change, CrossEncoder
from pipeline.encoders import bundled_encoder
from pipeline.modes import Encoding
from serve.doctor.finding import Finding, Subject, ok, problem

REINSTALL: Final = "Install lineage again: a file of the package was damaged or left out."

# Two ways to say one thing, and another thing: whatever the encoder's numbers are, their order is its whole use.
_SAID: Final = ("retry the request after a timeout", "try again when the connection timed out")
_ELSE: Final = "draw the border of a button in blue"
# Rounding leaves a vector's length within this of 1.
LENGTH_TOLERANCE: Final = 1e-3


def check_files(_: Subject) -> Iterator[Finding]:
    """Whether each bundled file is the one that was shipped."""
    wrong = bundled.differing()
    for name, fault in wrong.items():
        yield problem("model files", f"{bundled.FOLDER / name}: {fault}", REINSTALL)
    if not wrong:
        yield ok("model files", f"{', '.join(bundled.shipped())}: as shipped")


def check_encoder(_: Subject) -> Iterator[Finding]:
    """Whether the sentence encoder loads, and puts kin nearer than strangers."""
    yield _checked("encoder", Encoding.MINILM)


def check_table(_: Subject) -> Iterator[Finding]:
    """The same of the static encoder."""
    yield _checked("encoder static", Encoding.STATIC)


def check_cross_encoder(subject: Subject) -> Iterator[Finding]:
    """Whether the cross-encoder that is asked for loads, and takes what is meant for a better answer."""
    reader = CrossEncoder(subject.settings.reranker, threads=1)
    fits = reader.scores(_SAID[0], [Change(said, "") for said in (_SAID[1], _ELSE)])
    if not fits[0] > fits[1]:
        yield problem("cross-encoder", "its scores make no sense on this machine", REINSTALL)
    else:
        yield ok("cross-encoder", f"{reader.name}; a question is read")


def _checked(name: str, encoding: Encoding) -> Finding:
    encoder = bundled_encoder(encoding, threads=1)
    first, second, other = encoder.encode([*_SAID, _ELSE])
    if abs(float(first @ first) - 1) > LENGTH_TOLERANCE or not first @ second > first @ other:
        return problem(name, "its vectors make no sense on this machine", REINSTALL)
    return ok(name, f"{encoder.name}, {encoder.dimension} dimensions; a text embeds")
