"""Arrays in a GPU's memory: the caller's, and the library's for the caller."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from lockstep import _native

__all__ = ["DeviceArray", "Place", "on_device"]

CUDA, CUDA_MANAGED = 2, 13  # of DLPack
# Of each type, DLPack's code and bits, and NumPy's letter.
TYPES = {
    "float32": (2, 32, "f"),
    "float64": (2, 64, "f"),
    "int32": (0, 32, "i"),
    "bool": (6, 8, "b"),
}
LETTERS = {code: letter for code, _, letter in TYPES.values()}


def kind_of(dtype: str) -> str:
    """A type as the array interface names it, without the order of bytes."""
    _, bits, letter = TYPES[dtype]
    return f"{letter}{bits // 8}"


# CUDA's numbers of the default stream: the driver's 0 is ambiguous in both protocols.
DEFAULT_STREAM, LEGACY_STREAM = 0, 1


class _Tensor(ctypes.Structure):
    """DLTensor, whose device and dtype are flat here."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
# Of a capsule that is being destroyed, which must not be given another reference.
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
UNUSED = b"dltensor"  # name of a capsule that nobody has taken

# What was exported and not given back yet, by address, with what must live as long.
_exported: dict[int, tuple[Any, ...]] = {}


def _delete(address: int) -> None:
    _exported.pop(address, None)


def _drop(capsule: int) -> None:
    """Give back what nobody took out of its capsule."""
    if _name(capsule) == UNUSED:
        _delete(_pointer_at(capsule, UNUSED))


_deleter = _Deleter(_delete)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)


def on_device(array: Any) -> bool:
    """Whether an array is in a GPU's memory."""
    device = getattr(array, "__dlpack_device__", None)
    if device is not None:
        return device()[0] in (CUDA, CUDA_MANAGED)
    return hasattr(array, "__cuda_array_interface__")


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous array, in elements."""
    strides: list[int] = []
    size = 1
    for n in reversed(shape):
        strides.insert(0, size)
        size *= n
    return tuple(strides)


def adjacent(shape: tuple[int, ...], strides: Sequence[int], want: Sequence[int]) -> bool:
    """Whether strides are as wanted, those of one element left aside, which mean nothing."""
    return all(n <= 1 or a == b for n, a, b in zip(shape, strides, want)) or 0 in shape  # noqa: B905


class Place:
    """A GPU and a stream there."""

    def __init__(self, gpu: int, stream: int) -> None:
        self.gpu = gpu
        self.stream = stream or LEGACY_STREAM

    def address(
        self,
        array: Any,
        what: str,
        shape: tuple[int, ...],
        handle: _native.Handle,
        written: bool = False,
        dtype: str = "float64",
    ) -> tuple[int, Any]:
        """Where an array is, once the library's stream may use it, and what keeps it there."""
        if not on_device(array):
            raise TypeError(
                f"{what}: {type(array).__name__} is not on the GPU, and the other array is"
            )
        if hasattr(array, "__dlpack__"):
            return self._of_capsule(array, what, shape, dtype)
        face = array.__cuda_array_interface__
        address, readonly = face["data"]
        self._check(what, tuple(face["shape"]), shape, face["typestr"][1:], dtype, self.gpu)
        size = TYPES[dtype][1] // 8
        want = tuple(size * stride for stride in contiguous(shape))
        if face.get("strides") is not None and not adjacent(shape, face["strides"], want):
            raise ValueError(f"{what}: strides {face['strides']}, want a contiguous array")
        if face["typestr"][0] == ">":
            raise TypeError(f"{what}: {face['typestr']}, want the machine's order of bytes")
        if written and readonly:
            raise ValueError(f"{what}: the array is read-only")
        stream = face.get("stream")
        if stream is not None and stream != self.stream:
            handle.call("follow", stream=stream)
        return address, array

    def _of_capsule(
        self, array: Any, what: str, want: tuple[int, ...], dtype: str
    ) -> tuple[int, Any]:
        capsule = array.__dlpack__(stream=self.stream)
        t = _Managed.from_address(_pointer(capsule, UNUSED)).tensor
        shape = tuple(t.shape[i] for i in range(t.ndim))
        kind = f"{LETTERS.get(t.code, f'kind {t.code} ')}{t.bits // 8}"
        self._check(what, shape, want, kind, dtype, t.device_id)
        strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else contiguous(shape)
        if not adjacent(shape, strides, contiguous(shape)):
            raise ValueError(f"{what}: strides of {strides} numbers, want a contiguous array")
        return (t.data or 0) + t.byte_offset, capsule

    def _check(
        self,
        what: str,
        shape: tuple[int, ...],
        want: tuple[int, ...],
        kind: str,
        dtype: str,
        gpu: int,
    ) -> None:
        if shape != want:
            raise ValueError(f"{what}: shape {shape}, want {want}")
        if kind != kind_of(dtype):
            raise TypeError(
                f"{what}: {kind} on the GPU, want {kind_of(dtype)}, which is {dtype}: convert it "
                "there"
            )
        if gpu != self.gpu:
            raise ValueError(f"{what}: on GPU {gpu}, and the simulator is on GPU {self.gpu}")


class DeviceArray:
    """The library's numbers in a GPU's memory; PyTorch and others make arrays without a copy.

    ``torch.from_dlpack(array)`` or ``torch.as_tensor(array, device="cuda")``. Closing what
    gave it (rollouts, experience, environments) frees it; their next step or run overwrites it.

    Attributes
    ----------
    shape : tuple of int
        Its shape; it is contiguous.
    dtype : str
        ``"float64"``, ``"float32"``, ``"int32"`` or ``"bool"``.
    """

    def __init__(
        self,
        place: Place,
        address: int,
        shape: tuple[int, ...],
        handle: _native.Handle,
        dtype: str = "float64",
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.place = place
        self._address = address
        self._handle = handle

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return (
            f"<{' x '.join(map(str, self.shape))} numbers of {self.dtype} on GPU {self.place.gpu}>"
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._handle.id  # noqa: B018 it raises
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": ("|" if self.dtype == "bool" else "<") + kind_of(self.dtype),
            "data": (self._address, False),
            "strides": None,
            "stream": self.place.stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.place.gpu

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the array, for ``from_dlpack``.

        Parameters
        ----------
        stream : int, optional
            That of the consumer, which then waits for the steps so far; -1 for none that waits.
        max_version : tuple of int, optional
            Not used: the export is of version 0, which all understand.
        dl_device, copy
            Only this GPU, without a copy.
        """
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("the array is exported where it is, without a copy")
        consumer = LEGACY_STREAM if stream in (None, DEFAULT_STREAM) else stream
        handle = self._handle.id
        if consumer not in (-1, self.place.stream):
            _native.call("precede", handle, stream=consumer)
        n = len(self.shape)
        shape = (ctypes.c_int64 * n)(*self.shape)
        code, bits, _ = TYPES[self.dtype]
        managed = _Managed(
            _Tensor(self._address, CUDA, self.place.gpu, n, code, bits, 1, shape, None, 0),
            None,
            _deleter,
        )
        address = ctypes.addressof(managed)
        _exported[address] = managed, shape, self
        return _new(address, UNUSED, ctypes.cast(_destructor, ctypes.c_void_p))
