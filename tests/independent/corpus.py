"""Post every call of a corpus file against a running service, read all of it back, and compare bytes and counts.

    python tests/independent/corpus.py --ready READY.json --corpus exchanges.jsonl.gz

It imports nothing of the service and nothing of the demonstration. READY.json is what `make demo ARGS=--keep` leaves:
the address and a key for each role; the database's address stands in the stack's own file beside it.
"""

import argparse
import asyncio
import base64
import concurrent.futures
import gzip
import http.client
import json
import socket
import sys
import threading
import urllib.parse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg

CALLS_A_RUN = 50
PART_BYTES = 256 * 1024
local = threading.local()

Json = dict[str, Any]


def request(
    ready: Json, role: str, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Send one request on this thread's connection; one second try where the connection had been closed."""
    for last in (False, True):
        connection = getattr(local, "connection", None)
        if connection is None:
            host = urllib.parse.urlsplit(ready["url"]).netloc
            local.connection = connection = http.client.HTTPConnection(host, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {ready['keys'][role]}", **sent})
            answer = connection.getresponse()
            content = answer.read()
        except (http.client.HTTPException, OSError):
            connection.close()
            local.connection = None
            if last:
                raise
            continue
        if answer.getheader("Connection", "").lower() == "close":
            connection.close()
            local.connection = None
        return answer.status, dict(answer.getheaders()), content
    raise AssertionError


def put(ready: Json, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    """Put one part. A large one asks first: what is refused unread closes the connection under what is being sent."""
    if len(body) <= PART_BYTES:
        status, _, content = request(ready, "runtime", "PUT", path, body, **headers)
        return status, content
    host = urllib.parse.urlsplit(ready["url"])
    lines = [
        f"PUT {path} HTTP/1.1",
        f"Host: {host.netloc}",
        f"Authorization: Bearer {ready['keys']['runtime']}",
    ]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += ["Expect: 100-continue", f"Content-Length: {len(body)}", "", ""]
    with socket.create_connection((host.hostname, host.port), timeout=30) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()  # skips a 100; none may come
        content = answer.read()
    assert answer.status != 100, "the body was asked for"
    return answer.status, content


def calls(path: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    with gzip.open(path, "rb") as lines:
        for line in lines:
            call = json.loads(line)
            yield (
                call["id"],
                {"logical-request": exact(call["request"]), "observable-output": exact(call["response"])},
            )


def exact(body: Json) -> bytes:
    return base64.b64decode(body["base64"]) if "base64" in body else body["text"].encode("utf-8")


def post_run(
    ready: Json, name: str, some: Sequence[tuple[str, dict[str, bytes]]]
) -> tuple[dict[str, bytes], Counter[str]]:
    """Post one run; return what was stored by path, and how often each reason refused."""
    status, _, content = request(
        ready, "runtime", "PUT", f"/v1/runs/{name}", b"{}", Content_Type="application/json"
    )
    assert status in (200, 201), (status, content)
    ticket = json.loads(content)["ticket"]
    stored: dict[str, bytes] = {}
    refused: Counter[str] = Counter()
    number = 0
    for call, bodies in some:
        for kind, body in bodies.items():
            number += 1
            path = f"/v1/runs/{name}/exchanges/{call}/attempts/only/parts/{kind}"
            said = {
                "Custody_Ticket": ticket,
                "Custody_Session": f"s-{name}",
                "Custody_Sequence": str(number),
                "Custody_Completeness": "complete",
                "Content_Type": "application/json",
                "Prefer": "wait=5",
            }
            status, content = put(ready, path, body, **said)
            while status == 429 and json.loads(content)["reason"] == "capacity_exceeded":
                status, content = put(ready, path, body, **said)
            if status in (200, 201, 202):
                stored[path] = body
            else:
                problem = json.loads(content)
                assert problem["reason"] == "part_too_large", problem
                assert len(body) > PART_BYTES, (path, len(body))
                refused[problem["reason"]] += 1
    close = json.dumps({"sessions": {f"s-{name}": number}}).encode()
    path = f"/v1/runs/{name}/close"
    status, _, content = request(ready, "runtime", "POST", path, close, Content_Type="application/json")
    assert status in (200, 202), (status, content)
    return stored, refused


def read_back(ready: Json, path: str, body: bytes) -> str | None:
    """Return what is wrong with one part, if anything."""
    for _ in range(200):
        status, headers, content = request(
            ready, "reviewer", "GET", f"{path}/content", Custody_Purpose="check"
        )
        if status != 404:
            break
        threading.Event().wait(0.05)  # queued is not stored: the answer came before the commit
    if status != 200:
        return f"{path}: {status} {content[:200]!r}"
    if content != body:
        return f"{path}: {len(content)} bytes came back instead of {len(body)}, or others"
    if headers.get("cache-control", headers.get("Cache-Control")) != "no-store":
        return f"{path}: may be cached"
    return None


async def counted(url: str, prefix: str) -> dict[str, int]:
    """Count in Postgres what the runs of this check left there."""
    connection = await asyncpg.connect(url)
    try:
        return dict(
            await connection.fetchrow(
                """
            SELECT count(*) AS parts, count(bodies.evidence) AS bodies, count(DISTINCT parts.run_uid) AS runs
            FROM runs JOIN parts USING (scope_id, run_uid) LEFT JOIN bodies USING (span_start, scope_id, evidence)
            WHERE runs.run LIKE $1
            """,
                prefix + "%",
            )
        ) | {
            "refused": await connection.fetchval(
                """
            SELECT count(*) FROM runs JOIN gaps USING (scope_id, run_uid)
            WHERE runs.run LIKE $1 AND gaps.reason = 'part_too_large' AND gaps.exchange IS NOT NULL
            """,
                prefix + "%",
            )
        }
    finally:
        await connection.close()


def main() -> int:
    """Run the check; 0 if every byte and every count agrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ready", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--database", required=True, help="address of the service's Postgres")
    parser.add_argument("--prefix", default="independent-")
    options = parser.parse_args()
    ready = json.loads(options.ready.read_text())
    every = list(calls(options.corpus))
    runs = [
        (f"{options.prefix}{at:04}", every[at : at + CALLS_A_RUN]) for at in range(0, len(every), CALLS_A_RUN)
    ]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        posted = list(threads.map(lambda run: post_run(ready, *run), runs))
        stored = {path: body for some, _ in posted for path, body in some.items()}
        refused = sum((reasons for _, reasons in posted), Counter())
        wrong = [
            fault for fault in threads.map(lambda item: read_back(ready, *item), stored.items()) if fault
        ]
    found = asyncio.run(counted(options.database, options.prefix))
    expected = {
        "parts": len(stored),
        "bodies": len(stored),
        "runs": len(runs),
        "refused": refused["part_too_large"],
    }
    said = {
        "posted": 2 * len(every),
        "stored": len(stored),
        "refused": dict(refused),
        "different": len(wrong),
    }
    sys.stdout.write(json.dumps({**said, "postgres": found}) + "\n")
    sys.stderr.writelines(f"{fault}\n" for fault in wrong[:20])
    if found != expected:
        sys.stderr.write(f"Postgres holds {found} and not {expected}\n")
    return 1 if wrong or found != expected else 0


if __name__ == "__main__":
    raise SystemExit(main())
