#!/usr/bin/env python
"""List the public modules and their names in docs/public.md: `python -m docs.list_public`.

The API reference of the site has the same modules and names (`docs.build_site.REFERENCE`).
"""

from docs.build_site import REFERENCE, public_names
from docs.regions import Pages, filled, table, write


def public() -> dict[str, list[str]]:
    """Return the public names of each public module."""
    return {module: public_names(module) for module in sorted(REFERENCE)}


def pages() -> Pages:
    """Return the page that lists what is public, as it has to be."""
    rows = [
        (f"`{module}`", ", ".join(f"`{name}`" for name in names))
        for module, names in public().items()
    ]
    return filled("public.md", {"public": table(("Module", "Names"), rows)})


if __name__ == "__main__":
    write(pages)
