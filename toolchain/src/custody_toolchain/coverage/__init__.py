"""Whether a file that was read page by page was read whole. Nothing here reads a file."""

from custody_toolchain.coverage.intervals import Intervals
from custody_toolchain.coverage.ledger import Coverage, FileCoverage, Reading
from custody_toolchain.coverage.pages import Page, Version, file_id, utf8_end

__all__ = ["Coverage", "FileCoverage", "Intervals", "Page", "Reading", "Version", "file_id", "utf8_end"]
