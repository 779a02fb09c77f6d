"""Texts that settings lead to: the clusters' document, and the secrets of clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dispatch.errors import BadConfiguration


def document(source: str) -> str:
    """Return the text of the clusters' document.

    Args:
        source: JSON itself, `file:PATH` or `ssm:PARAMETER`.

    Raises:
        BadConfiguration: There is none.
        TryLater: No answer.
    """
    if source.startswith("ssm:"):
        from dispatch.aws import parameter

        return parameter(source.removeprefix("ssm:"))
    if source.startswith("file:"):
        return _file(source.removeprefix("file:"))
    if not source:
        raise BadConfiguration("set DISPATCH_CLUSTERS: JSON, file:PATH or ssm:PARAMETER")
    return source


def earlier_documents(source: str) -> Iterator[str]:
    """Yield what the document was before, the newest first; nothing where nobody keeps that."""
    if source.startswith("ssm:"):
        from dispatch.aws import earlier_texts

        yield from earlier_texts(source.removeprefix("ssm:"))


def _file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration(f"{path}: {error}") from error


def secret_of(reference: str) -> str:
    """Return the secret that a reference stands for.

    Raises:
        BadConfiguration: There is none, or such a reference can't be followed here.
        TryLater: No answer.
    """
    kind, _, name = reference.partition(":")
    match kind:
        case "file":
            return _file(name)
        case "secretsmanager":
            from dispatch.aws import secret

            return secret(name)
        case "ssm":
            from dispatch.aws import parameter

            return parameter(name)
        case _:
            raise BadConfiguration(f"{kind}: a cluster's own secret can't be read from there")
