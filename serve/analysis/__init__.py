"""Data frames and charts of a history, for notebooks; files that change together and owners, for `lineage related`.

- `charts`: charts of activity, hotspots, lanes of a query, vectors, index size and run time
- `figures`: colours, titles and axes of the charts
- `metrics`: `open_index`; commits, lines and languages over time; changes, fixes and co-changes of files; index size
  and run time
- `owners`: authors of the surviving lines and of recent work
- `related_files`: files that change together, owners and hot spots: `find_related_files`
- `vector_map`: 2-D projection and clusters of the vectors; the lanes of a query side by side
"""
