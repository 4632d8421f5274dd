"""Pure decisions: facts in, decision out. Standard library only; no clock, ids, logging, await."""
