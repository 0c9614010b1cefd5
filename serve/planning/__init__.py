"""`lineage plan`: what an index could do without, shown and, where it is wished, written.

- `planning`: the line: survey, show, write
- `page`: what a survey found, as a person reads it
- `section`: our part of `.lineageignore`, and the person's own lines around it
"""
