"""From a request's text to its model, or a refusal that names the field and the reason."""

from __future__ import annotations

from pydantic import ValidationError

from dispatch.api.cluster_models import AcceptLossRequest
from dispatch.api.models import IntentRequest, SubmitRequest
from dispatch.errors import InvalidRequest, RecordRefused
from dispatch.record.codec import parse_strict, refusal


def parse_submit(text: str) -> SubmitRequest:
    """Return a submit request, or refuse it strictly (duplicate keys and NaN included).

    Raises:
        InvalidRequest: names the field and the reason.
    """
    _parsed(text)
    try:
        return SubmitRequest.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(error) from None


def parse_intent(text: str, *, job: str | None = None) -> IntentRequest:
    """Return an intent request, or refuse it strictly.

    Raises:
        InvalidRequest: names the field and the reason.
    """
    _parsed(text, job)
    try:
        return IntentRequest.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(error, job) from None


def parse_accept_loss(text: str) -> AcceptLossRequest:
    """Return a request to accept a loss, or refuse it strictly.

    Raises:
        InvalidRequest: names the field and the reason.
    """
    _parsed(text)
    try:
        return AcceptLossRequest.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(error) from None


def _parsed(text: str, job: str | None = None) -> None:
    try:
        parse_strict(text)
    except RecordRefused as refused:
        raise InvalidRequest(refused.reason, job=job, field=refused.field) from None


def _invalid(error: ValidationError, job: str | None = None) -> InvalidRequest:
    refused = refusal(error)
    return InvalidRequest(refused.reason, job=job, field=refused.field)
