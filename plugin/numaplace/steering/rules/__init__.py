"""When it does not matter to any request where another one goes."""
