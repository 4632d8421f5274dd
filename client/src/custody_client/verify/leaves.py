"""The log's entries that a bundle may show, each by the one form it can have.

An entry that matches is canonical JSON with exactly its fields; ids stand in it as hex, commitments as base64.
"""

import re
from typing import Final

from custody_client.verify.texts import B64_32, HEX_ID, NUMBER

_TAIL: Final = rf'"t":(?P<t>{NUMBER}),"v":1\}}'

PART: Final = re.compile(
    rf'\{{"b":"(?P<b>{HEX_ID})","c":"(?P<c>{B64_32})","k":"part","m":"(?P<m>{B64_32})","p":"(?P<p>{HEX_ID})",{_TAIL}'
    .encode()
)  # fmt: skip
CLOSE: Final = re.compile(rf'\{{"k":"close","m":"(?P<m>{B64_32})","r":"(?P<r>{HEX_ID})",{_TAIL}'.encode())
PURGE: Final = re.compile(
    rf'\{{"k":"purge","of":(?P<of>{NUMBER}),"p":"(?P<p>{HEX_ID})",{_TAIL[:-2]},"w":"(?P<w>[a-z_]+)"\}}'.encode()
)
EXPIRE: Final = re.compile(rf'\{{"b":"(?P<b>{HEX_ID})","k":"expire","n":(?P<n>{NUMBER}),{_TAIL}'.encode())

# What a purge leaf may say (closed).
PURGE_WORDS: Final = frozenset(
    {b"erased", b"retention_expired", b"source_unavailable", b"dependency_changed"}
)
