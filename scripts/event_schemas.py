"""Write `infra/events/`: the JSON schema of the detail of every published event.

``python scripts/event_schemas.py``; a test compares the files with what this would write.
"""

from pathlib import Path

from dispatch.event_details import DETAILS, schema_text

TARGET = Path(__file__).resolve().parents[1] / "infra" / "events"


def main() -> None:
    """Write the schemas anew."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for detail_type in DETAILS:
        (TARGET / f"{detail_type}.json").write_text(schema_text(detail_type), encoding="utf-8")


if __name__ == "__main__":
    main()
