"""Search of the history: `find_pattern`.

- `cache`: Cache of open indexes and loaded snapshots; loaded snapshot, vectors and messages of one
  index state
- `features`: Ranking features per candidate; text pairs for the cross-encoder
- `find_pattern`: Builds the answer and its hints; find_pattern: query, retrieve, fuse, rerank,
  answer
- `query`: Query intent (bug fix, API, ...) from cue words; normalizes the path filter; parses a
  request into a Query
- `query_hints`: Extracts language, paths, quoted names and dates from the query text; parses dates
  and ages (`30d`, `2024-01`); stop words and question phrases
- `rerank`: Keeps the best hunk per commit; logistic reranker over features (+ cross-encoder)
- `retrieval`: Reciprocal rank fusion; runs the vector and BM25 retrievers
"""
