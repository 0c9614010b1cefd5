"""Data frames and charts of a history, for notebooks.

- `charts`: charts of activity, hotspots, lanes of a query, vectors, index size and run time
- `figures`: colours, titles and axes of the charts
- `metrics`: `open_index`; commits, lines and languages over time; changes, fixes and co-changes of files; index size
  and run time
- `vector_map`: 2-D projection and clusters of the vectors; the lanes of a query side by side
"""
