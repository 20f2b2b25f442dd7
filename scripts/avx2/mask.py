"""Copies Python's ONNX Runtime into a folder, without its kernels for AVX-512: python mask.py FOLDER.

Its library picks kernels by CPUID and XCR0 and has no option for it. It takes those for AVX-512 where the system keeps their registers, which it
asks with "not rax; test al, 0xE0". Bits 3 and 4 of XCR0 belong to MPX, which Linux has not enabled since 5.6: asked for these as well, it never has
all. Of the copy's code nothing else differs. It is for the machine where it is made, to measure and to record another profile.
"""

import shutil
import sys
from pathlib import Path

import onnxruntime

HAS_AVX512 = bytes.fromhex("48f7d0 a8e0 0f84")  # not rax; test al, 0xE0; je
NEVER = bytes.fromhex("48f7d0 a8f8 0f84")

to = Path(sys.argv[1]) / "onnxruntime"
shutil.rmtree(to, ignore_errors=True)
shutil.copytree(Path(onnxruntime.__file__).parent, to)
for library in to.glob("capi/*.so*"):
    code = library.read_bytes()
    if places := code.count(HAS_AVX512):
        library.write_bytes(code.replace(HAS_AVX512, NEVER))
        print(f"{library}: {places} tests for AVX-512")
