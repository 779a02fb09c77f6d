"""Write `infra/openapi.json` from the table of routes and the wire models.

``python scripts/openapi.py``; a test compares the file with what this would write.
"""

from pathlib import Path

from dispatch.api.openapi import document_text

TARGET = Path(__file__).resolve().parents[1] / "infra" / "openapi.json"


def main() -> None:
    """Write the document anew."""
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(document_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
