"""The viewer: maps in a browser, live, over HTTP on this machine only.

- `commands`: `mindmap viewer`
- `service`: one running viewer: its port, its routes, its end
- `routes`: what is asked for by which path
- `stream`: a browser that is told of changes
- `handler`: what every answer has in common
- `shared`: what the routes share
- `doors`: who may ask
- `refusals`: errors as answers
- `announcing`: where a running viewer is found
- `ports`: the port, or the next one that is free
- `documents`: maps as they are sent, read once for all who ask
- `page`: the page's own files
- `why`: the lineage of a file that a map holds
- `watching`: what changes in the data directory
- `debounce`: many writes, few news
- `news`: what changed, for everybody to hear at their own pace
- `threads`: work that would keep everybody else waiting
- `bodies`: what is sent: bytes, their tag, and the same packed
- `signs`: what a map's file looks like from outside
"""
