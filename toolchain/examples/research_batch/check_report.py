"""Look up every citation of a report in the texts: `python check_report.py report.md`. 0 if all stand there."""

import re
import sys
from pathlib import Path

TEXTS = Path(__file__).parent / "texts"
CITATION = re.compile(r"^\d+\. “(.+)” \(([\w.-]+), byte (\d+)\)$", re.MULTILINE)


def main(report: Path) -> int:
    """Return 0 if there are citations and all of them are so, 1 if not."""
    citations = CITATION.findall(report.read_text(encoding="utf-8"))
    wrong = [
        f"{path}, byte {offset}"
        for quote, path, offset in citations
        if not (TEXTS / path).read_bytes()[int(offset) :].startswith(quote.encode())
    ]
    sys.stdout.write(f"{len(citations)} citations, not so: {wrong}\n")
    return 0 if citations and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
