"""Use cases: gather facts, ask the policies, act. What runs in which process is decided in store.wiring."""
