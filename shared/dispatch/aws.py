"""Amazon's services other than the records' table: queue, bus, archive, parameters, secrets.

No exception of botocore leaves this module.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dispatch.errors import BadConfiguration, TryLater
from dispatch.events import SOURCE, Event
from dispatch.messages import Work, work_text

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_ssm import SSMClient

_Result = TypeVar("_Result")

_AT_ONCE = 10
"""Messages, or events, that one request may carry."""

_EARLIER = 10
"""Versions of a parameter that are asked for at most."""

_NOT_THERE = frozenset(
    {
        "ParameterNotFound",
        "ResourceNotFoundException",
        "AccessDeniedException",
        "AccessDenied",
        "NoSuchBucket",
    }
)

_NO_OBJECT = frozenset({"NoSuchKey", "AccessDenied"})
"""What S3 says of an object that isn't there; who may not list the bucket is told the second."""

_ARCHIVES = "records/"
"""What the keys of archives begin with; the role of retention is held to it."""


def _config() -> Config:
    return Config(
        connect_timeout=3, read_timeout=10, retries={"mode": "standard", "max_attempts": 4}
    )


def dynamodb_client(endpoint: str | None) -> DynamoDBClient:
    """Return a client whose own retries meet throttling first."""
    return boto3.client("dynamodb", endpoint_url=endpoint, config=_config())


class SqsQueue:
    """The queue of the work, in SQS.

    Args:
        url: The queue's.
        client: Instead of one of its own.
    """

    def __init__(self, url: str, client: SQSClient | None = None) -> None:
        self._url = url
        self._client: SQSClient = client or boto3.client("sqs", config=_config())

    def send(self, messages: Sequence[Work]) -> None:
        """Hand over messages (see `WorkQueue`)."""
        for start in range(0, len(messages), _AT_ONCE):
            entries: Any = [
                {"Id": str(place), "MessageBody": work_text(work)}
                for place, work in enumerate(messages[start : start + _AT_ONCE])
            ]
            send = partial(self._client.send_message_batch, QueueUrl=self._url, Entries=entries)
            answer = _tried("the work queue", send)
            failed = answer.get("Failed", [])
            if failed:
                raise TryLater(f"the work queue took {len(failed)} messages not: {failed[0]}")


class EventBridgeBus:
    """The bus of the events, in EventBridge.

    Args:
        name: The bus's.
        client: Instead of one of its own.
    """

    def __init__(self, name: str, client: EventBridgeClient | None = None) -> None:
        self._name = name
        self._client: EventBridgeClient = client or boto3.client("events", config=_config())

    def put(self, events: Sequence[Event]) -> None:
        """Publish events (see `Bus`)."""
        for start in range(0, len(events), _AT_ONCE):
            entries: Any = [
                {
                    "EventBusName": self._name,
                    "Source": SOURCE,
                    "DetailType": event.detail_type,
                    "Time": event.at,
                    "Detail": event.detail,
                }
                for event in events[start : start + _AT_ONCE]
            ]
            answer = _tried("the event bus", partial(self._client.put_events, Entries=entries))
            if answer.get("FailedEntryCount"):
                raise TryLater(f"the event bus took {answer['FailedEntryCount']} events not")


class S3Archive:
    """Archives of records, as objects of one bucket.

    Args:
        bucket: Its name.
        client: Instead of one of its own.
    """

    def __init__(self, bucket: str, client: Any = None) -> None:
        self._bucket = bucket
        self._client: Any = client or boto3.client("s3", config=_config())

    def put(self, name: str, data: bytes) -> None:
        """Keep these bytes under a name; S3 refuses them if they don't arrive whole (`Archive`)."""
        checksum = b64encode(sha256(data).digest()).decode()
        send = partial(
            self._client.put_object,
            Bucket=self._bucket,
            Key=f"{_ARCHIVES}{name}",
            Body=data,
            ContentType="application/x-ndjson",
            ChecksumAlgorithm="SHA256",
            ChecksumSHA256=checksum,
        )
        _tried(f"archive {name} in bucket {self._bucket}", send)

    def get(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None (see `Archive`)."""

        def read() -> bytes | None:
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=f"{_ARCHIVES}{name}")
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _NO_OBJECT:
                    return None
                raise
            data: bytes = answer["Body"].read()
            return data

        return _tried(f"archive {name} in bucket {self._bucket}", read)


def parameter(name: str) -> str:
    """Return the text of a parameter in SSM.

    Raises:
        BadConfiguration: There is none, or it may not be read.
        TryLater: No answer.
    """
    client: SSMClient = boto3.client("ssm", config=_config())
    answer = _tried(
        f"parameter {name}", lambda: client.get_parameter(Name=name, WithDecryption=True)
    )
    return answer["Parameter"].get("Value", "")


def earlier_texts(name: str) -> Iterator[str]:
    """Yield what a parameter in SSM was before, the newest first, as long as SSM tells.

    A few versions are asked for at most. It takes no other right than to read the parameter.
    """
    client: SSMClient = boto3.client("ssm", config=_config())
    try:
        version = client.get_parameter(Name=name)["Parameter"]["Version"]
        for earlier in range(version - 1, max(0, version - 1 - _EARLIER), -1):
            answer = client.get_parameter(Name=f"{name}:{earlier}", WithDecryption=True)
            yield answer["Parameter"].get("Value", "")
    except (ClientError, BotoCoreError):
        return


def secret(name: str) -> str:
    """Return the text of a secret in Secrets Manager.

    Raises:
        BadConfiguration: There is none, it may not be read, or it isn't a text.
        TryLater: No answer.
    """
    client: SecretsManagerClient = boto3.client("secretsmanager", config=_config())
    answer = _tried(f"secret {name}", lambda: client.get_secret_value(SecretId=name))
    if "SecretString" not in answer:
        raise BadConfiguration(f"secret {name} isn't a text")
    return answer["SecretString"]


def _tried(what: str, call: Callable[[], _Result]) -> _Result:
    try:
        return call()
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _NOT_THERE:
            raise BadConfiguration(f"{what}: {error}") from error
        raise TryLater(f"{what}: {error}") from error
    except BotoCoreError as error:
        raise TryLater(f"{what}: {error}") from error
