"""What looks like a secret is found by name, and what doesn't is left alone."""

import pytest

from dispatch.screening import findings

# Put together here, so that no scanner takes this file for a leak.
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
LONG = "x9" * 20


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("A", AWS, "AWS"),
        ("A", "id=" + "ASIA" + "ABCDEFGHIJKLMNOP;rest", "AWS"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "key"),
        ("A", "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE", "private key"),
        ("A", "-----BEGIN " + "PRIVATE KEY-----", "private key"),
        ("A", "-----BEGIN OPENSSH " + "PRIVATE KEY-----", "private key"),
        ("A", "ghp_" + "a" * 36, "GitHub"),
        ("A", "github_pat_" + "a" * 40, "GitHub"),
        ("A", "glpat-" + "a" * 20, "GitLab"),
        ("A", "xoxb-" + "1234567890-abc", "Slack"),
        ("A", "https://hooks.slack.com/services/" + "T0/B0/x", "Slack"),
        ("A", "AIza" + "a" * 35, "Google"),
        ("A", "hf_" + "a" * 34, "Hugging Face"),
        ("A", "sk-" + "a" * 40, "API key"),
        ("A", "sk_live_" + "a" * 24, "API key"),
        ("A", "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "signed token"),
        ("A", "npm_" + "a" * 36, "registry"),
        ("A", "DefaultEndpointsProtocol=https;AccountKey=" + LONG, "Azure"),
        ("DB", "postgres://ada:hunter2@db.example.com/x", "password"),
        ("DB_PASSWORD", "hunter2", "password"),
        ("WANDB_API_KEY", LONG, "key"),
        ("MY_TOKEN", LONG, "key"),
        ("CLIENT_SECRET", LONG, "key"),
    ],
)
def test_what_looks_like_a_secret_is_found(name: str, value: str, word: str) -> None:
    (found,) = findings({name: value, "PLAIN": "value"})
    assert found.name == name
    assert word in found.looks_like
    assert value not in found.looks_like


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MAX_TOKENS", "4096"),
        ("TOKEN", "1234567890123456"),
        ("HF_TOKEN", "/run/secrets/hf"),
        ("HF_TOKEN", "./hf-token.txt"),
        ("API_KEY", "${FROM_ELSEWHERE}"),
        ("PASSWORD", ""),
        ("PASSWORD", "/run/secrets/password"),
        ("KEYBOARD", LONG),
        ("MONKEY", LONG),
        ("SECRETARY", LONG),
        ("PYTHONPATH", "/a:/b"),
        ("URL", "https://example.com:8443/path?x=1"),
        ("URL", "s3://bucket/key@v2"),
        ("GIT_SHA", "a" * 40),
        ("DIGEST", "sha256:" + "0" * 64),
        ("NCCL_DEBUG", "INFO"),
        ("NOTE", "the token is read from a file by the job itself"),
        ("TASK_NAME", "risk-" + "a" * 30),
        ("CERT", "-----BEGIN CERTIFICATE-----"),
    ],
)
def test_what_does_not_is_left_alone(name: str, value: str) -> None:
    assert findings({name: value}) == []


def test_findings_are_by_name_in_order() -> None:
    assert [one.name for one in findings({"B": AWS, "A": AWS, "C": "no"})] == ["A", "B"]
