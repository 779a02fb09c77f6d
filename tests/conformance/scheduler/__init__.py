"""The promises of a scheduler's adapter, and the world that shows whether they are kept."""

import pytest

# So that a broken promise is shown with the values that broke it, as in a test's own file.
pytest.register_assert_rewrite("tests.conformance.scheduler.contract")
