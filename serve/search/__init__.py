"""Search of the history: `find_pattern` and `search_changes`.

- `cache`: LRU cache of open indexes and their loaded snapshots
- `exact_search`: search for all commits whose change adds or removes a text: `search_changes`
- `features`: features of candidates for the reranker, and texts for the cross-encoder
- `find_pattern`: main module: query, retrievers, fusion, reranking, answer with hints
- `merged_search`: search of several repositories
- `query`: parsing of a request into a query: filters, intent, retrieval profile
- `query_hints`: language, dates, paths and symbol names in the text of a query; function words
- `rerank`: logistic reranker with an optional cross-encoder; best hunk (diff of one file) of each commit
- `retrieval`: vector and full-text retrievers; reciprocal rank fusion
"""
