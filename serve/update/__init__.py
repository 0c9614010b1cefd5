"""Command `lineage update`: installation of a newer version, from the source and with the installer of the current one.

- `installers`: the command; runs of pip, pipx and uv; restoring the environment on failure
- `receipt`: install receipt and versioned environments; the last step of install.sh
- `sources`: versions that a directory, wheels, a git repository or a package index offers
"""
