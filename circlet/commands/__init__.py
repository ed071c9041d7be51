"""What each command does, as functions: a request in, plain data out."""
