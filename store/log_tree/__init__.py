"""The proof log's tree and texts: RFC 6962 hashes in the formats of C2SP, byte for byte. No I/O here."""
