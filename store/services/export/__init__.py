"""Export bundles: what was asked for, each part read again for its requester, as a bag that proves itself."""
