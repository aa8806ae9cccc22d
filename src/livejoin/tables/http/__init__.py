"""HTTP: routes, queries on tables, control requests, the web server."""
