"""What `install.sh` runs last, with the Python of the environment it has made: links, and the receipt."""

from __future__ import annotations

import argparse
from pathlib import Path

from serve import about
from serve.updating import places, receipt
from serve.updating.receipt import Receipt, Source


def main() -> None:
    """Finish an installation."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("installer", "kind", "location", "ref", "environment", "commands"):
        parser.add_argument(f"--{name}", required=True)
    said = parser.parse_args()
    environment, folder = Path(said.environment), Path(said.commands)
    if said.installer == "pip":
        places.lead_to(environment)
        environment = environment.parent.parent
        places.link_commands(environment, folder)
    source = Source(said.kind, said.location, said.ref)
    receipt.write(folder, Receipt.now(about.version(), said.installer, source, environment))


if __name__ == "__main__":
    main()
