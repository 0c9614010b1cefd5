"""`lineage index -i`: questions instead of flags.

- `wizard`: the line: questions, the command they come to, a last word, the run
- `knobs`: what is asked: for each flag its question, what may be answered, what it means
- `command`: flags -> the command that says the same
- `prompts`: questions at a terminal; the only file that knows the library for them
"""
