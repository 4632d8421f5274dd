"""The same over TLS: deadlines hold within a record too, and a service that cannot prove who it is gets nothing."""

import datetime as dt
import ipaddress
import ssl
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from custody_client import Custody
from tests.support.scripted import KEY, closing, hanging, healthy, in_turn, scripted, trickling, until


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of this machine, signed by itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "custody test")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def trusted(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


@pytest.mark.usefixtures("trusted")
def test_large_parts_and_many_requests_go_over_one_connection(tls):
    with scripted(tls) as service:
        custody = Custody(service.url, KEY)
        run = custody.run("r-1", wait=2)
        for size in (10, 200_000, 250_000):
            run.exchange().attempt().capture_request(b"x" * size)
            assert custody.flush(5)
        run.close()
        until(service.closings)
        assert [len(part["body"]) for part in service.parts()] == [10, 200_000, 250_000]
        assert sum(isinstance(each, ssl.SSLSocket) for each in service.connections) == 1
        custody.close()


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("reply", [hanging, trickling, closing])
def test_a_service_that_hangs_trickles_or_breaks_off_is_given_up(tls, reply, monkeypatch):
    monkeypatch.setattr("custody_client.sender._REQUEST_S", 0.5)
    monkeypatch.setattr("custody_client.pauses._FIRST_S", 0.02)
    with scripted(tls, frames=in_turn(reply, reply, healthy)) as service:
        custody = Custody(service.url, KEY)
        run = custody.run("r-1", wait=2)
        run.exchange().attempt().capture_request(b"x")
        until(lambda: custody.counters().not_captured == {"client_transport": 1})
        service.released.set()
        run.close()
        until(service.closings)
        custody.close()


def test_a_service_that_nobody_vouches_for_is_sent_nothing(tls):
    with scripted(tls) as service:
        custody = Custody(service.url, KEY)
        run = custody.run("r-1", wait=0.3)
        run.exchange().attempt().capture_request(b"x")
        until(lambda: custody.counters().unanswered)
        assert not run.admits("logical-request")
        custody.close(timeout=0.3)
        assert service.asked == []


@pytest.mark.usefixtures("trusted")
def test_one_that_never_shakes_hands_is_given_up(monkeypatch):
    monkeypatch.setattr("custody_client.sender._REQUEST_S", 0.4)
    with scripted() as service:  # it waits for a request's first line, which never comes
        custody = Custody(service.url.replace("http:", "https:"), KEY)
        begun = time.monotonic()
        custody.run("r-1")
        until(lambda: custody.counters().unanswered)
        assert time.monotonic() - begun < 5
        custody.close(timeout=0.3)
