"""The control plane: requests and events become facts, then a state, then steps."""
