"""Commits in, rows out: knows git, grammars and the models; no SQL.

The line, in its order:

- `run`: the straight line of a pass; the only file that names every stage
- `walk`: repository and watermark -> the commits to index, parents before children
- `hunks`: commit -> one hunk per changed file; renames, merges, binaries, huge files are decided here
- `parse`: source -> symbols and chunks; hunk -> the symbols it touched
- `text`: commit, hunk and symbols -> semantic text, and the code-aware words of a text
- `extract`: a batch of commits -> its rows, but for the vectors: what one worker does
- `embed`: texts -> vectors, each distinct text once
- `write`: one batch into the store, watermark last, all or nothing
- `head`: the HEAD snapshot's symbols, only of files that changed

What it stands on:

- `git`: reading repositories, commits, trees and patches
- `source`: reading source: grammars, syntax trees, definitions
- `models`: the bundled weights and tokenizer, and how they were made
- `bundled`: whether they are the files that were shipped
- `encoder`: the Encoder protocol, and the bundled encoder that ONNX Runtime runs
- `accelerated`: the same encoder unquantized, on graphics and neural processors
- `static`: the static encoder: a table with one row a word
- `cross_encoder`: the cross-encoder: how well a change answers a question
- `encoders`: the bundled encoders by their names
- `portions`: an encoder that is given only so many texts at a time
- `caching`: what a vector in the embedding cache is found by
- `modes`: how vectors are made, and how kept: off, by message and diff, by the diff alone; the cross-encoder's forms
- `providers`: execution providers: what is asked for -> what this build can run
- `survey`: where a history's commits go, and what an index could do without
- `ignore`: which paths stay out: built-in defaults < git attributes < `.lineageignore`
- `reach`: which recorded commits a HEAD reaches
- `allocator`: glibc's allocator, told to keep little
- `interrupts`: signals that end a program, and steps that must not stay half done
- `workers`: a function over items by several processes: ordered, bounded in flight
- `profile`: phase timings: the summary's bars and the `--profile` line
- `versions`: the version of each part that makes rows
"""
