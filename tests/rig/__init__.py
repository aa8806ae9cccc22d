"""What the tests share: real processes, producers that remember what was acknowledged, oracles."""
