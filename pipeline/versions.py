"""The version of each part that makes rows; a number rises when the part's output changes its meaning.

They stand together, and apart from the parts, so that `lineage status` can compare them with an index
without loading a parser or a model.
"""

from __future__ import annotations

from typing import Final

from pipeline.encoder import EMBEDDING_MODEL
from stores.metadata import Components
from stores.versions import EMBEDDING_DIMENSION, SCHEMA_VERSION

CHUNKER_VERSION: Final = "1"
PARSER_VERSION: Final = "1"
SEMANTIC_TEXT_VERSION: Final = "1"
WORDS_VERSION: Final = "1"
# No reranker is bundled yet.
RERANKER_MODEL: Final = "none"


def components(embed_cache: str | None = None) -> Components:
    """What this program makes rows with; without a mode of the embedding cache, whichever an index has suits it."""
    return Components(
        schema=str(SCHEMA_VERSION),
        embedding_model=EMBEDDING_MODEL,
        embedding_dimension=str(EMBEDDING_DIMENSION),
        reranker_model=RERANKER_MODEL,
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
