"""What every record store promises, as classes that each store's tests inherit."""

import pytest

for module in ("contract", "optional", "race"):
    pytest.register_assert_rewrite(f"tests.conformance.records.{module}")
