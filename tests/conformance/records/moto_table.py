"""DynamoDB in this process, made safe for threads by a lock around all of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws
from moto.dynamodb.responses import DynamoHandler

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@contextmanager
def moto_client() -> Iterator["DynamoDBClient"]:
    """Yield a client; without the lock moto lets several writers win one revision."""
    lock = Lock()
    answer = DynamoHandler.call_action

    def one_at_a_time(handler: DynamoHandler) -> Any:
        with lock:
            return answer(handler)

    with mock_aws(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(DynamoHandler, "call_action", one_at_a_time)
        yield boto3.client("dynamodb", config=Config(max_pool_connections=40))
