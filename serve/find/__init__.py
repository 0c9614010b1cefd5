"""How was it done before? From a query to ranked commits.

- `answer`: hits and what is to be said about them
- `best`: one hit for each commit, and the hunk it is shown by
- `evidence`: what is known of each candidate, as numbers
- `fuse`: reciprocal rank fusion
- `hints`: language, paths, quoted names and timeframe said in a query's text
- `intent`: what kind of precedent is asked for, and what follows
- `kept`: what stays at hand between questions
- `lanes`: the vector lane and the full-text lanes
- `moments`: dates and ages as people write them
- `paths`: a path filter as it is typed -> a pattern from the repository's root
- `query`: a request -> what the lanes are asked
- `reading`: what the cross-encoder reads of each candidate
- `rerank`: evidence -> the probability that a candidate answers, and the order of that
- `seen`: one state of an index, as one HEAD sees it
- `search`: the straight line from request to answer
- `wording`: the words that only ask, told from those that say what is asked for
"""
