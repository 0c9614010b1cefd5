"""The version of each part that makes rows; a number rises when the part's output changes its meaning.

They stand together, and apart from the parts, so that `lineage status` can compare them with an index
without loading a parser or a model.
"""

from __future__ import annotations

from typing import Final

from pipeline.encoders.base import EMBEDDING_MODEL, STATIC_MODEL
from pipeline.encoders.cross_encoder import CROSS_ENCODER
from pipeline.options import Encoding
from stores.compatibility import Components
from stores.types import EMBEDDING_DIMENSION, SCHEMA_VERSION

CHUNKER_VERSION: Final = "1"
PARSER_VERSION: Final = "1"
SEMANTIC_TEXT_VERSION: Final = "1"
WORDS_VERSION: Final = "1"


def models() -> dict[Encoding, str]:
    """What names the vectors of each encoder."""
    return {Encoding.MINILM: EMBEDDING_MODEL, Encoding.STATIC: STATIC_MODEL}


def encoding_of(model: str | None) -> Encoding | None:
    """The encoder whose vectors have this name, in this version of it or another; None where none has."""
    family = (model or "").partition("/")[0]
    return next((each for each, name in models().items() if name.partition("/")[0] == family), None)


def components(embed_cache: str | None = None, encoding: Encoding | None = None) -> Components:
    """What this program makes rows with, with this encoder or else the usual one.

    Without a mode of the embedding cache, whichever an index has suits it.
    """
    return Components(
        schema=str(SCHEMA_VERSION),
        embedding_model=models()[encoding or Encoding.MINILM],
        embedding_dimension=str(EMBEDDING_DIMENSION),
        reranker_model=CROSS_ENCODER,
        chunker_version=CHUNKER_VERSION,
        semantic_text_version=SEMANTIC_TEXT_VERSION,
        parser_rust=PARSER_VERSION,
        parser_python=PARSER_VERSION,
        parser_java=PARSER_VERSION,
        parser_kotlin=PARSER_VERSION,
        parser_typescript=PARSER_VERSION,
        parser_javascript=PARSER_VERSION,
        words_version=WORDS_VERSION,
        embed_cache=embed_cache,
    )
