"""A bundle, checked by programs that other people wrote: Go's x/mod, proofbundle, metamorphic-log, openssl, bagit."""

import json
import subprocess
import zipfile
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.oracles.exports import Servers, exported_by_the_store, made
from tests.support.sources import ROOT

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
ORACLES = ROOT / ".venv-oracles"
PYTHON = ORACLES / "bin/python"
CLIENT = ORACLES / "client/bin"
# Debian's packages of Go code, and nothing from a network.
GO = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": "", "GOPROXY": "off"}


@dataclass(frozen=True)
class Exported:
    """A bundle, unpacked, and what its reader holds besides."""

    archive: Path
    bag: Path
    policy: Path
    anchor: Path
    vkey: str

    def folders(self, of):
        return sorted((self.bag / "data" / of).iterdir())


def run(*command, env=None):
    return subprocess.run([*map(str, command)], check=False, capture_output=True, text=True, env=env)


def answer(*command):
    """What a program says that is right with what it was given."""
    done = run(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="session", params=[made, exported_by_the_store], ids=["made", "exported"])
def exported(request, tmp_path_factory, postgres_url, template_database, valkey_url):
    home = tmp_path_factory.mktemp("exported")
    bundle = request.param(home, Servers(postgres_url, template_database, valkey_url))
    (home / "bundle.zip").write_bytes(bundle.archive)
    (home / "policy.txt").write_bytes(bundle.policy)
    (home / "anchor").write_bytes(bundle.anchor)
    with zipfile.ZipFile(home / "bundle.zip") as archive:
        archive.extractall(home / "unpacked")
    (bag,) = (home / "unpacked").iterdir()
    vkey = bundle.policy.decode().partition("log ")[2].split()[0]
    return Exported(home / "bundle.zip", bag, home / "policy.txt", home / "anchor", vkey)


@pytest.fixture(scope="session")
def go_oracle(tmp_path_factory):
    home = tmp_path_factory.mktemp("go")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "GOCACHE": str(home / "cache"), **GO}
    built = run("go", "build", "-o", home / "oracle", HERE / "go/main.go", env=env)
    assert built.returncode == 0, built.stderr
    return home / "oracle"


def proven(exported):
    """Leaf and proof of everything in the bundle that has them."""
    return [(proof.parent / "leaf.json", proof) for proof in sorted(exported.bag.rglob("proof.tlog-proof"))]


def index_of(proof):
    return int(proof.read_text().split("\n")[1].removeprefix("index "))


def size_of(exported):
    return int((exported.bag / "data/checkpoint").read_text().split("\n")[1])


def test_go_finds_every_leaf_in_the_log(exported, go_oracle):
    checkpoint = exported.bag / "data/checkpoint"
    for leaf, proof in proven(exported):
        said = answer(go_oracle, exported.vkey, checkpoint, leaf, proof)
        assert said == f"included {index_of(proof)} {size_of(exported)}"


def test_go_finds_no_other_leaf(exported, go_oracle, tmp_path):
    (leaf, proof), (other, _), *_ = proven(exported)
    checkpoint = exported.bag / "data/checkpoint"
    assert run(go_oracle, exported.vkey, checkpoint, other, proof).returncode == 1
    changed = tmp_path / "checkpoint"
    changed.write_text(
        checkpoint.read_text().replace(f"\n{size_of(exported)}\n", f"\n{size_of(exported) + 1}\n")
    )
    assert run(go_oracle, exported.vkey, changed, leaf, proof).returncode == 1


def test_proofbundle_finds_a_leaf_in_the_log(exported):
    (leaf, proof), (other, _), *_ = proven(exported)
    script = HERE / "with_proofbundle.py"
    said = answer(PYTHON, script, exported.vkey, leaf, proof)
    assert said == f"included {index_of(proof)} {size_of(exported)}"
    assert run(PYTHON, script, exported.vkey, other, proof).returncode != 0


def test_metamorphic_log_finds_a_leaf_and_that_the_log_grew(exported):
    (leaf, proof), (other, _), *_ = proven(exported)
    (consistency,) = (exported.bag / "data/consistency").iterdir()
    more = (proof, exported.anchor, consistency)
    script = HERE / "with_metamorphic_log.py"
    said = answer(PYTHON, script, exported.vkey, leaf, *more)
    assert said == f"included {index_of(proof)} {size_of(exported)}"
    assert run(PYTHON, script, exported.vkey, other, *more).returncode != 0


def hmac_by_openssl(opening, file):
    key = b64decode(opening).hex()
    said = answer("openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key}", file)
    return b64encode(bytes.fromhex(said.rpartition(" ")[2])).decode()


def test_openssl_finds_the_same_commitments(exported):
    for folder in exported.folders("parts")[:10]:
        leaf, openings = (json.loads((folder / name).read_text()) for name in ("leaf.json", "openings.json"))
        assert hmac_by_openssl(openings["opening"], folder / "content") == leaf["c"]
        assert hmac_by_openssl(openings["meta_opening"], folder / "meta.json") == leaf["m"]
    for folder in exported.folders("closings"):
        leaf, openings = (json.loads((folder / name).read_text()) for name in ("leaf.json", "openings.json"))
        assert hmac_by_openssl(openings["close_opening"], folder / "close.json") == leaf["m"]


def test_bagit_finds_the_bag_valid(exported):
    assert run(PYTHON, "-m", "bagit", "--validate", exported.bag).returncode == 0


def test_bagit_finds_a_changed_bag_invalid(exported, tmp_path):
    with zipfile.ZipFile(exported.archive) as archive:
        archive.extractall(tmp_path)
    (bag,) = tmp_path.iterdir()
    (bag / "data/policy.txt").write_text("# nobody\n")
    assert run(PYTHON, "-m", "bagit", "--validate", bag).returncode == 1


def verified(exported, archive):
    return run(
        CLIENT / "custody",
        "verify",
        archive,
        "--policy",
        exported.policy,
        "--anchor",
        exported.anchor,
        "--json",
    )


def test_the_client_alone_finds_the_bundle_right(exported):
    listed = json.loads(answer(CLIENT / "python", "-m", "pip", "list", "--format", "json"))
    # pip and setuptools come with an environment.
    alone = {"custody-client", "msgspec", "cryptography", "cffi", "pycparser"}
    assert {each["name"] for each in listed} - {"pip", "setuptools"} == alone
    for bundle in (exported.archive, exported.bag):
        done = verified(exported, bundle)
        assert done.returncode == 0, done.stdout
        assert json.loads(done.stdout)["counts"]["part"] == {"ok": len(exported.folders("parts"))}


def test_the_client_alone_finds_a_changed_bundle_wrong(exported, tmp_path):
    changed = tmp_path / "changed.zip"
    with zipfile.ZipFile(exported.archive) as archive, zipfile.ZipFile(changed, "w") as out:
        for name in archive.namelist():
            data = archive.read(name)
            out.writestr(name, data[:-1] + bytes([data[-1] ^ 1]) if name.endswith("/content") else data)
    done = verified(exported, changed)
    assert done.returncode == 1
    assert json.loads(done.stdout)["counts"]["part"] == {"failed": len(exported.folders("parts"))}
