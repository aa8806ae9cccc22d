"""Who may do what: tokens, sessions, roles, origins, the audit."""
