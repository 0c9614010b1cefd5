"""`lineage update`: from the source that the receipt names, and from no other.

- `update`: the line: receipt, what its source offers, the decision, the installer
- `installed`: what `install.sh` runs last: links, and the receipt
- `installers`: pip, pipx and uv: a new version in the place of the old one, or the old one as it was
- `places`: environments of our own beside each other, and the one that commands lead to
- `keeping`: an environment kept while an installer works on it
- `sources`: which versions a source offers, and what an installer is to be told of one
- `receipt`: what was installed, from where, by what; written beside the command
- `programs`: other programs, run to their end
"""
