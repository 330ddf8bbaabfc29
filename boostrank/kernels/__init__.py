"""Compiled arithmetic on arrays, which does not depend on files, engines or the users' options."""
