"""Who asks, as whom jobs run, and what proves it: TLS, the site's own tokens, one user for each."""

from __future__ import annotations

import base64
import json
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from dispatch.errors import SchedulerUnavailable
from dispatch.record.names import Cause
from dispatch.schedulers.scheduler import StartRefused
from dispatch.schedulers.slurm.settings import SiteToken
from dispatch.schedulers.slurm.tokens import SiteTokens
from tests.conformance.scheduler.world import Work
from tests.real.slurm.real import RealSlurm, until
from tests.real.slurm.story import Story
from tests.real.slurm.world import SlurmWorld, id_of
from tests.schedulers.slurm.certificates import certificate

TOKEN = SiteToken(secret="file:/token")


def goes_well(story: Story) -> None:
    """A job is started, released, seen to its end and looked up, and another one is stopped."""
    target = story.begin(story.world.spec(Work.FAIL))
    assert story.end(target).exit_code == 3
    until(lambda: bool(story.scheduler.lookup([target], []).sightings), "accounting knows it")
    stopped = story.run(story.world.spec(Work.LAST))
    story.scheduler.stop(stopped)
    assert story.end(stopped).cause is Cause.STOPPED


def test_over_tls_everything_goes_on_and_only_with_a_server_that_is_trusted(
    real: RealSlurm, tmp_path: Path
) -> None:
    cert_file, key_file = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_file, key_file)
    world = SlurmWorld(real, tls=context, ca_file=str(cert_file))
    assert world.settings.url.startswith("https:")
    goes_well(Story(world))
    careful = SlurmWorld(real, tls=context)
    with pytest.raises(SchedulerUnavailable, match="certificate"):
        careful.scheduler.find()
    careful.close()
    world.close()


def test_with_a_token_of_the_site_everything_goes_on_until_it_ends(real: RealSlurm) -> None:
    world = SlurmWorld(real, sign_in=TOKEN)
    made = real.run("scontrol", "token", "username=trainer", "lifespan=600")
    token = made.partition("SLURM_JWT=")[2].strip()
    story = Story(world, SiteTokens(lambda: token, world.clock))
    goes_well(story)
    short = real.run("scontrol", "token", "username=trainer", "lifespan=1")
    ended = world.another(SiteTokens(lambda: short.partition("SLURM_JWT=")[2], world.clock))
    time.sleep(2)
    with pytest.raises(SchedulerUnavailable, match="expired"):
        ended.find()
    world.close()


def test_each_principals_jobs_run_as_its_own_unix_user(real: RealSlurm) -> None:
    world = SlurmWorld(real, run_as={"ann": "trainer", "bob": "other"})
    story = Story(world)
    of_ann = story.run(world.spec(Work.LAST), owner="ann")
    of_bob = story.run(world.spec(Work.LAST), owner="bob")
    owners = {ref: real.field(id_of(ref), "UserId") for ref in (of_ann.ref, of_bob.ref)}
    assert [str(one).partition("(")[0] for one in owners.values()] == ["trainer", "other"]
    for target in (of_ann, of_bob):
        pids = [pid for pid, _ in real.processes(id_of(target.ref))]
        uids = {Path(f"/proc/{pid}").stat().st_uid for pid in pids}
        assert len(uids) == 1
        assert f"({uids.pop()})" in str(owners[target.ref])
    refused = story.scheduler.start(story.order(world.spec(Work.SUCCEED), owner="eve"))
    assert isinstance(refused, StartRefused)
    assert "eve" in refused.detail
    for target in (of_ann, of_bob):
        story.scheduler.stop(target)
        assert story.end(target).cause is Cause.STOPPED
    until(lambda: len(story.scheduler.lookup([of_ann, of_bob], []).sightings) == 2, "both known")
    world.close()


# --- tokens that another party signs --------------------------------------------------------------


def part(value: bytes | dict[str, Any]) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def whole(number: int) -> str:
    return part(number.to_bytes((number.bit_length() + 7) // 8, "big"))


@pytest.fixture
def issuer(real: RealSlurm) -> Iterator[rsa.RSAPrivateKey]:
    """A key of another party's, whose public half both daemons are told of."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_numbers()
    jwks = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "issuer"}
    path = real.base / "jwks.json"
    path.write_text(json.dumps({"keys": [{**jwks, "n": whole(public.n), "e": whole(public.e)}]}))
    path.chmod(0o644)
    files = [real.base / name for name in ("slurm.conf", "slurmdbd.conf")]
    before = [one.read_text() for one in files]
    for one, text in zip(files, before, strict=True):
        changed = re.sub(r"(?m)^(AuthAltParameters=.*)$", rf"\1,jwks={path}", text)
        one.write_text(changed)
    anew(real)
    yield key
    for one, text in zip(files, before, strict=True):
        one.write_text(text)
    anew(real)


def anew(real: RealSlurm) -> None:
    """Start the daemons that judge tokens again."""
    for name in ("slurmdbd", "slurmctld"):
        real.kill(name)
        real.start(name)
    until(real.controller_answers, "slurmctld answers again")
    until(lambda: "proving" in real.run("sacctmgr", "-n", "list", "cluster", check=False), "so")


def signed(key: rsa.RSAPrivateKey, user: str, lifetime_s: int) -> str:
    now = int(time.time())
    head = part({"alg": "RS256", "typ": "JWT", "kid": "issuer"})
    claims = part({"iat": now, "exp": now + lifetime_s, "sun": user})
    made = key.sign(f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{head}.{claims}.{part(made)}"


def test_a_token_that_another_party_signed_with_rs256_is_as_good(
    real: RealSlurm, issuer: rsa.RSAPrivateKey
) -> None:
    world = SlurmWorld(real, sign_in=TOKEN)
    token = signed(issuer, "trainer", 600)
    goes_well(Story(world, SiteTokens(lambda: token, world.clock)))
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    forged = signed(stranger, "trainer", 600)
    other = world.another(SiteTokens(lambda: forged, world.clock))
    with pytest.raises(SchedulerUnavailable, match="token"):
        other.find()
    # The cluster's own key goes on being taken beside it.
    minting = SlurmWorld(real)
    assert minting.scheduler.find().complete
    minting.close()
    world.close()
