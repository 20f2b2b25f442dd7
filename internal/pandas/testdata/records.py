"""What pandas makes of short CSV texts: as JSON, each with its records, or null if refused.

records.py            writes records.json
records.py --check    compares with it; exit status 1 on a difference
"""

import io
import itertools
import json
import sys
from pathlib import Path

import pandas

ALPHABET = 'x", \n\r'
LONGER = [
    '"x"y,', '"x"y"z,1', 'x"y,1', '"x""y",1', '"x,1\ny"z,2', 'x,"y\r\nz"', 'x,"\ny', '"x" ,y',
    ' "x",y', '"""x"""', '""""', '"""', '""x"",y', '"x"\ny', '"x"\r\ny', 'x\r\n\r\ny', 'x\n\ry',
    'x\r\r\ny', "x\n \t\ny", "\tx\n", "\t\n\t", "x\n,y", "x\n\n,y", "x,\r\n,y", "x\r\ry,z",
]  # fmt: skip


def records(text):
    """The records of a text behind a header, without the fields that a short one lacks."""
    names = "abcdefg"
    try:
        table = pandas.read_csv(
            io.BytesIO((",".join(names) + "\n" + text).encode()), dtype=str, na_filter=False
        )
    except pandas.errors.ParserError:
        return None
    return [[str(field) for field in row] for row in table.values.tolist()]


texts = ["".join(t) for n in range(1, 4) for t in itertools.product(ALPHABET, repeat=n)]
lines = [json.dumps([text, records(text)]) for text in texts + LONGER]
recorded = Path(__file__).with_name("records.json")
found = "[\n" + ",\n".join(lines) + "\n]\n"
if sys.argv[1:] == ["--check"]:
    same = recorded.read_text() == found
    print(f"{'ok  ' if same else 'FAIL'} records of {len(lines)} CSV texts")
    sys.exit(not same)
recorded.write_text(found)
