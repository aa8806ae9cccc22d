"""Memory to sockets: the live protocol, from the server's side."""
