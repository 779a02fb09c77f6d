"""A build that comes after this one: the same code, but it writes facts of a schema of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.real.rehearsal.deployment import BUILD
from tests.real.rehearsal.engine import ROOT

LATER_SCHEMA = "dispatch.fact.v2"

CHANGES = (
    ("return Envelope(FACT_SCHEMA, ", f'return Envelope("{LATER_SCHEMA}", '),
    (
        "if stored.schema == FACT_SCHEMA:",
        f'if stored.schema in (FACT_SCHEMA, "{LATER_SCHEMA}"):',
    ),
)
"""What a release with a new fact would change: it writes the new schema and reads both."""


def later_layer() -> Path:
    """Make the later build's layer beside this one's; a single module differs."""
    later = BUILD.with_name("sam-later")
    shutil.rmtree(later, ignore_errors=True)
    shutil.copytree(BUILD / "DispatchLayer", later, copy_function=os.link, symlinks=True)
    code = later / "python"
    module = code / "dispatch" / "record" / "codec.py"
    text = module.read_text()
    for was, is_now in CHANGES:
        assert text.count(was) == 1, f"the later build can't be made: {was!r}"
        text = text.replace(was, is_now)
    # Both are links to this build's files, which stay as they are.
    module.unlink()
    for compiled in (module.parent / "__pycache__").glob("codec.*"):
        compiled.unlink()
    module.write_text(text)
    python = ROOT / ".venv-sam" / "bin" / "python"
    how = ("-q", "--invalidation-mode", "unchecked-hash", "-s", code, "-p", "/opt/python")
    subprocess.run([python, "-m", "compileall", *how, module], check=True)
    return later
