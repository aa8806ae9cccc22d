"""Authentication and authorization: tokens, sessions, roles, origins, the audit."""
