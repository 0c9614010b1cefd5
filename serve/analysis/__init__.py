"""Data frames and charts of a history for notebooks; answers of `lineage related` and `lineage log`.

- `charts`: charts of activity, hotspots, index size and run time; colours, titles and axes of all charts
- `commit_kinds`: kind of a commit: feature, fix, removal and so on
- `metrics`: `open_index`; commits, lines and languages over time; changes, fixes and co-changes of files; index size
  and run time
- `owners`: authors of the surviving lines and of recent work
- `range_summary`: summary of a range of commits, with candidates for release notes: `summarize_range`
- `related_files`: files that change together, owners and hot spots: `find_related_files`
- `search_charts`: ranks of the hits of a query in each lane; 2-D map and clusters of the vectors
"""
