"""The one-machine stack: the functions' own handlers, fed without an AWS account."""
