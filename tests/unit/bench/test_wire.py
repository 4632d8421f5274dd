import msgspec

from bench.wire import Run, get, post_frames, put_part, read_requests, write_requests


def split(request):
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


def test_a_part_is_numbered_and_says_its_length():
    run = Run("r", "key", "ticket")
    first, headers, body = split(put_part(run, b"one"))
    assert first == "PUT /v1/runs/r/exchanges/call-1/attempts/physical-1/parts/logical-request HTTP/1.1"
    assert headers["Content-Length"] == "3"
    assert headers["Custody-Sequence"] == "1"
    assert headers["Authorization"] == "Bearer key"
    assert body == b"one"
    first, headers, body = split(put_part(run, 256))
    assert first.endswith("/call-1/attempts/physical-1/parts/observable-output HTTP/1.1")
    assert headers["Content-Length"] == "256"
    assert body == b""


def test_identities_never_come_twice_in_a_run():
    run = Run("r", "key", "ticket")
    paths = {split(put_part(run, b""))[0] for _ in range(64)}
    assert len(paths) == 64


def test_a_flush_names_its_numbers_and_carries_its_contents():
    run = Run("r", "key", "ticket", numbered=4)
    _, headers, body = split(post_frames(run, [b"one", b"two"]))
    assert headers["Custody-Sequences"] == "5-6"
    frames = msgspec.msgpack.decode(body)
    assert [(kind, said["sequence"], content) for kind, said, content in frames] == [
        ("part", 5, b"one"), ("part", 6, b"two"),
    ]  # fmt: skip
    assert run.numbered == 6


def test_requests_come_out_of_their_file_as_they_went_in(tmp_path):
    requests = [get("/a", "key"), b"", b"\x00" * 70_000]
    assert list(read_requests(write_requests(tmp_path / "requests", requests))) == requests
