"""What became of an attachment: received, extracted, given. Nothing here opens one, and no facts are posted."""

from custody_toolchain.attachments.kinds import Agreement, agreement, sniffed
from custody_toolchain.attachments.ledger import (
    Attachment,
    Attachments,
    Extraction,
    Frames,
    Given,
    Pages,
    Received,
    State,
    Status,
)

__all__ = [
    "Agreement",
    "Attachment",
    "Attachments",
    "Extraction",
    "Frames",
    "Given",
    "Pages",
    "Received",
    "State",
    "Status",
    "agreement",
    "sniffed",
]
