"""When it cannot matter to any request where another one goes."""
