"""The core: state machine, formats and names. Pure, standard library only."""
