"""Who gets in: signatures are checked by the gateway, and the handler refuses by itself."""

from urllib.parse import urlsplit

import httpx
import pytest

from dispatch.client import Bearer, Client
from dispatch.errors import Forbidden
from tests.real.rehearsal.deployment import Deployment


def test_a_signed_call_is_answered_and_names_its_caller(ada: Client) -> None:
    assert ada.whoami() == "iam:arn:aws:iam::000000000000:user/ada"


def test_a_call_without_a_signature_is_refused(deployed: Deployment) -> None:
    assert deployed.get("/whoami").status_code == 403


def test_a_call_signed_with_the_wrong_secret_is_refused(
    deployed: Deployment, ada_s_key: tuple[str, str]
) -> None:
    auth = deployed.signing((ada_s_key[0], "x" * 40))
    assert deployed.get("/whoami", auth=auth).status_code == 403


def test_a_caller_without_the_right_is_refused(deployed: Deployment) -> None:
    auth = deployed.signing(deployed.person("bob", "s3:ListAllMyBuckets"))
    assert deployed.get("/whoami", auth=auth).status_code == 403
    with pytest.raises(Forbidden), deployed.client(auth) as client:
        client.whoami()


@pytest.mark.parametrize("token", ["Bearer made-up", "made-up"])
def test_a_token_where_signatures_are_asked_for_is_refused(
    deployed: Deployment, token: str
) -> None:
    answer = deployed.get("/whoami", headers={"Authorization": token})
    assert answer.status_code == 403
    assert "actor" not in answer.text


def test_a_bearer_client_gets_a_clean_refusal(deployed: Deployment) -> None:
    with pytest.raises(Forbidden), deployed.client(Bearer(lambda: "made-up")) as client:
        client.whoami()


def test_the_document_of_the_api_is_public_and_nothing_else_is(deployed: Deployment) -> None:
    document = deployed.get("/openapi.json")
    assert document.status_code == 200
    assert deployed.get("/").status_code == 200
    for path, methods in document.json()["paths"].items():
        for method in methods:
            if path in ("/", "/openapi.json"):
                continue
            where = deployed.outputs["Url"] + path.replace("{job_id}", "jaaaaaaaa")
            assert httpx.request(method.upper(), where, timeout=600).status_code == 403, path


def test_everything_listens_on_the_loopback_interface(deployed: Deployment) -> None:
    assert (urlsplit(deployed.outputs["Url"]).hostname or "").endswith(".localhost")
