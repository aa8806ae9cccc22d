"""Memory to sockets: the server side of the live protocol."""
