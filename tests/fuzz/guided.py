"""Coverage-guided inputs for one reader, where atheris is installed: guided.py "rows as CSV" -runs=9999."""

import sys

import atheris

with atheris.instrument_imports(include=["thermostats"]):
    from damage import accept_or_refuse
    from readers import readers

reader = readers()[sys.argv.pop(1)]
atheris.Setup(sys.argv, lambda content: accept_or_refuse(reader, content))
atheris.Fuzz()
