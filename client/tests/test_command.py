"""The command: its four answers, its two ways of telling, and that it needs nothing but `cryptography`."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from custody_client import cli
from tests.support import bundles
from tests.support.bundles import Signer

SMALL = bundles.small()


@pytest.fixture
def told(tmp_path, capsys):
    """Run `custody verify` on a bundle's bytes; returns the answer and both outputs."""
    (tmp_path / "anchor").write_bytes(SMALL.log.checkpoint(3))
    (tmp_path / "policy").write_bytes(SMALL.policy())
    (tmp_path / "b.zip").write_bytes(SMALL.zipped())

    def run(*more, bundle=None, policy=None, anchor=True):
        if bundle is not None:
            (tmp_path / "b.zip").write_bytes(bundle)
        if policy is not None:
            (tmp_path / "policy").write_bytes(policy)
        held = ["--anchor", str(tmp_path / "anchor")] if anchor else []
        arguments = ["verify", str(tmp_path / "b.zip"), "--policy", str(tmp_path / "policy"), *held, *more]
        answer = cli.main(arguments)
        return answer, *capsys.readouterr()

    return run


def test_all_right_is_0(told):
    answer, out, err = told()
    assert (answer, err) == (0, "")
    assert out.splitlines()[-1].startswith("OK")


def test_something_wrong_is_1(told):
    answer, out, _ = told(bundle=SMALL.zipped()[:-1])
    assert answer == 1
    assert out.splitlines()[-1].startswith("FAILED")


def test_nothing_in_it_or_no_anchor_is_3(told):
    assert told(anchor=False)[0] == 3
    empty = bundles.empty()
    assert told(bundle=empty.zipped(), anchor=False)[0] == 3


def test_json_is_for_programs(told):
    answer, out, _ = told("--json")
    plain = json.loads(out)
    assert (answer, plain["exit"], plain["verdict"]) == (0, 0, "ok")


def other_policy(log: Signer, bundle: Signer) -> bytes:
    return f"log {log.vkey}\nbundle {bundle.vkey}\n".encode()


def test_another_origin_is_never_0(told):
    """The same keys under another name; other keys under the same name."""
    same_keys = bundles.small()
    for name, seed in (("other.example/log", bytes(range(32))), (bundles.ORIGIN, bytes(32))):
        policy = other_policy(Signer(name, seed), Signer(f"{name}/bundle", bundles.drawn("bundle key")))
        assert told(policy=policy, bundle=same_keys.zipped())[0] == 1
    other_bundle = other_policy(SMALL.log.signer, Signer(f"{bundles.ORIGIN}/bundle", bytes(32)))
    assert told(policy=other_bundle)[0] == 1


@pytest.mark.parametrize(
    "policy",
    [b"", b"# nobody\n", SMALL.policy().replace(b"bundle", b"# bundle", 1), SMALL.policy() * 2, b"\xff\xfe"],
)
def test_a_policy_without_its_keys_is_2(told, policy):
    answer, out, err = told(policy=policy)
    assert (answer, out) == (2, "")
    assert err.startswith("custody verify: the policy cannot be used")


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["verify"], ["verify", "b"], ["verify", "--policy", "p"], ["prove"], ["verify", "b", "--policy", "p", "-x"],
    ],
)  # fmt: skip
def test_what_cannot_be_understood_is_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_files_that_are_not_there_are_2(tmp_path, capsys):
    policy, bundle = tmp_path / "policy", tmp_path / "b.zip"
    arguments = ["verify", str(bundle), "--policy", str(policy)]
    assert cli.main(arguments) == 2
    policy.write_bytes(SMALL.policy())
    assert cli.main(arguments) == 2
    bundle.write_bytes(SMALL.zipped())
    assert cli.main([*arguments, "--anchor", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().out == ""


def test_names_in_any_script_can_be_printed_anywhere(tmp_path, capsys):
    bundle = bundles.empty("prüfung.example/log")
    bundle.add_part(b"x")
    (tmp_path / "p").write_bytes(bundle.policy())
    (tmp_path / "b").write_bytes(bundle.zipped())
    assert cli.main(["verify", str(tmp_path / "b"), "--policy", str(tmp_path / "p")]) == 3
    assert "pr\\xfcfung.example/log" in capsys.readouterr().out


def test_without_cryptography_the_command_says_what_to_install(told, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "cryptography" else found(name)
    )
    answer, out, err = told()
    assert (answer, out) == (2, "")
    assert "custody-client[verify]" in err


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "custody_client", "verify", "-h"]
    source = str(Path(cli.__file__).parents[1])
    ran = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source}
    )
    assert "--policy" in ran.stdout
    assert "3 if nothing failed" in ran.stdout


def test_content_is_in_no_word_that_is_said(told):
    marked = bundles.small()
    part = marked.add_part(b"MARKED-CONTENT")
    files = marked.files()
    files[f"data/parts/{part.evidence}/content"] = b"MARKED-CONTEND"
    files["data/accesses.jsonl"] = b"MARKED-RECORD\n"
    answer, out, err = told("--json", bundle=marked.zipped(bundles.seal(marked, files)))
    assert answer == 1
    assert "MARKED" not in out + err
