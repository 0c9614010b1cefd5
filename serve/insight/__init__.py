"""What an index tells of a history as a whole: frames, and what the notebooks make of them.

It needs polars and matplotlib, which come with `pip install 'history-lineage[notebooks]'`; no command needs it.

- `opening`: `open_index`, the one call that gives frames
- `activity`: commits, languages and lines over time
- `hotspots`: what is changed and mended most, and what is changed together
- `ranked`: the lanes of a query and their fusion, side by side
- `atlas`: vectors as a map, its regions named by their words
- `costs`: where an index's bytes and a run's seconds go
- `look`: how every chart looks
- `charts`: the charts of activity and hotspots
- `maps`: the charts of lanes, vectors and costs
"""
