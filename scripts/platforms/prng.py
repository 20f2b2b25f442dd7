"""Write bcryptprimitives.dll, which Go's programs ask for random bytes, and Debian's Wine lacks.

It has no code: its one function is another name of one that Wine has.
"""

import struct
import sys
from pathlib import Path

BASE = 0x1000  # where the section lies in memory
AT = 0x200  # and in the file


def exports() -> bytes:
    """Return the table of exports: ProcessPrng is advapi32's SystemFunction036."""
    tables = 40 + 4 + 4 + 2
    texts = [b"bcryptprimitives.dll\0", b"ProcessPrng\0", b"ADVAPI32.SystemFunction036\0"]
    name = BASE + tables
    function = name + len(texts[0])
    forwarder = function + len(texts[1])
    head = struct.pack("<IIHHIIIIIII", 0, 0, 0, 0, name, 1, 1, 1, BASE + 40, BASE + 44, BASE + 48)
    return head + struct.pack("<IIH", forwarder, function, 0) + b"".join(texts)


def library() -> bytes:
    """Return the file."""
    table = exports()
    size = (len(table) + AT - 1) // AT * AT
    coff = struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x2022)
    optional = struct.pack("<HBBIIIII", 0x20B, 0, 0, 0, size, 0, 0, BASE)
    optional += struct.pack("<QIIHHHHHHIIIIHH", 0x180000000, 0x1000, AT, 6, 0, 0, 0, 6, 0, 0,
                            0x2000, AT, 0, 3, 0x100)  # fmt: skip
    optional += struct.pack("<QQQQII", 1 << 20, 4096, 1 << 20, 4096, 0, 16)
    optional += struct.pack("<II", BASE, len(table)) + bytes(15 * 8)
    section = struct.pack("<8sIIIIIIHHI", b".edata", len(table), BASE, size, AT, 0, 0, 0, 0,
                          0x40000040)  # fmt: skip
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + coff + optional + section
    return head.ljust(AT, b"\0") + table.ljust(size, b"\0")


Path(sys.argv[1]).write_bytes(library())
