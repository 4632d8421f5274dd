"""What runs outside the store: the verifier of its bundles. It shares no code with the service."""
