"""The HTTP API: routes, table queries, control requests, the web server."""
