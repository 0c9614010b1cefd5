"""`lineage update`: installs a newer version the way this one was installed.

- `installers`: Runs pip, pipx or uv; backup and restore of an environment; `lineage update`
- `receipt`: Post-install step of install.sh; versioned environment directories and symlinks;
  install receipt
- `sources`: Runs an external program; available versions at the install source
"""
