"""Data frames and charts of a history, for notebooks.

- `charts`: Activity and hotspot charts; chart style; charts of retrievers, vectors, costs
- `metrics`: Commits, languages, lines over time; index size and run time breakdown; change
  frequency, fixes, co-change; `open_index()`
- `vector_map`: 2-D projection and clusters of vectors; retriever rankings side by side
"""
