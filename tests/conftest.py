"""What holds for every test: no account of a person's, no deadline on chance."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A shell without a terminal starts what it puts in the background with SIGINT ignored, and so would
# everything be that these tests start, and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("dispatch", deadline=None, print_blob=True)
settings.load_profile("dispatch")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write golden texts anew; read the difference then"
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden texts are to be written instead of compared."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture(autouse=True, scope="session")
def no_account_of_a_person() -> Iterator[None]:
    """Credentials that open nothing, so a test that forgets its fake can't reach an account."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "DISPATCH_"))]:
            if name != "DISPATCH_MINISTACK":
                patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_REGION", "eu-west-1")
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        yield
