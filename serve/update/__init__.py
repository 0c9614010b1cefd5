"""`lineage update`: installs a newer version with the installer and from the source of the current one.

- `installers`: decides what to install, runs pip, pipx or uv, and restores the environment on failure
- `receipt`: install receipt and versioned environments; the last step of install.sh
- `sources`: versions that a directory, wheels, a git repository or a package index offers
"""
