"""Versions of the components that write rows. Raise a number when the meaning of its component's output changes.

This module has no heavy imports, so that `lineage status` can compare the versions with those of an index without
loading a parser or a model.
"""

from __future__ import annotations

from typing import Final

from pipeline.encoders.base import EMBEDDING_MODEL, STATIC_MODEL
from pipeline.encoders.cross_encoder import CROSS_ENCODER
from pipeline.options import EncoderName
from stores.compatibility import EMBEDDING_DIMENSION, ComponentVersions
from stores.migrations import SCHEMA_VERSION

CHUNKER_VERSION: Final = "1"
PARSER_VERSION: Final = "1"
JAVASCRIPT_PARSER_VERSION: Final = "2"
SEMANTIC_TEXT_VERSION: Final = "1"
WORDS_VERSION: Final = "1"


def get_embedding_models() -> dict[EncoderName, str]:
    """Return the model name that is recorded with the vectors of each encoder."""
    return {EncoderName.MINILM: EMBEDDING_MODEL, EncoderName.STATIC: STATIC_MODEL}


def get_encoder_name(model: str | None) -> EncoderName | None:
    """Return the encoder of a recorded model name, ignoring the model's version; None if unknown."""
    family = (model or "").partition("/")[0]
    return next(
        (encoder for encoder, name in get_embedding_models().items() if name.partition("/")[0] == family),
        None,
    )


def get_component_versions(
    embed_cache: str | None = None, encoder_name: EncoderName | None = None
) -> ComponentVersions:
    """Return the component versions of this program.

    `embed_cache`: mode of the embedding cache; None matches every mode of an index. `encoder_name`: None means the
    default encoder.
    """
    return ComponentVersions(
        schema=str(SCHEMA_VERSION),
        embedding_model=get_embedding_models()[encoder_name or EncoderName.MINILM],
        embedding_dimension=str(EMBEDDING_DIMENSION),
        reranker_model=CROSS_ENCODER,
        chunker_version=CHUNKER_VERSION,
        semantic_text_version=SEMANTIC_TEXT_VERSION,
        parser_rust=PARSER_VERSION,
        parser_python=PARSER_VERSION,
        parser_java=PARSER_VERSION,
        parser_kotlin=PARSER_VERSION,
        parser_typescript=JAVASCRIPT_PARSER_VERSION,
        parser_javascript=JAVASCRIPT_PARSER_VERSION,
        words_version=WORDS_VERSION,
        embed_cache=embed_cache,
    )
