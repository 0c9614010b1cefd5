"""Versions of the components that write rows. Raise a component's version with each change after which its rows differ.

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
PARSER_VERSION: Final = "1"  # of Rust, Python, Java and Kotlin
JAVASCRIPT_PARSER_VERSION: Final = "4"  # of JavaScript and TypeScript
SEMANTIC_TEXT_VERSION: Final = "1"
WORDS_VERSION: Final = "1"  # of the splitting of texts into terms


def get_embedding_models() -> dict[EncoderName, str]:
    """Return the model name that is recorded with the vectors of each encoder."""
    return {EncoderName.MINILM: EMBEDDING_MODEL, EncoderName.STATIC: STATIC_MODEL}


def get_encoder_name(model: str | None) -> EncoderName | None:
    """Return the encoder of a model name, whatever its version; None for an unknown name and for None."""
    name_without_version = (model or "").partition("/")[0]
    for encoder, bundled_model in get_embedding_models().items():
        if bundled_model.partition("/")[0] == name_without_version:
            return encoder
    return None


def get_component_versions(
    embed_cache: str | None = None, encoder_name: EncoderName | None = None
) -> ComponentVersions:
    """Return the component versions of this program.

    `embed_cache`: mode of the embedding cache; None is compatible with an index in any mode.
    `encoder_name`: None for the default encoder, MiniLM.
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
