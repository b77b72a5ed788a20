"""List the Vulkan devices of this machine through the delegate's library, without torch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

_MIB, _GIB = 2**20, 2**30


@dataclass(frozen=True)
class DeviceInfo:
    """A Vulkan device of this machine.

    Attributes:
        index: Value of the load option `device` that selects this device.
        is_default: True if the delegate uses this device when the load option `device` is empty.
        name: Name of the device.
        kind: Kind of the device, such as "discrete GPU" or "CPU".
        api: The version of Vulkan that the driver supports.
        driver: The driver's name and version.
        memory: Size of its fastest memory in bytes.
        max_tensor: Maximum size of a tensor in bytes.
        used: Optional features that the delegate uses.
        unused: Optional features that the device has, but the delegate does not use.
        missing: Optional features that the device lacks.
        problem: Why the delegate cannot use the device; empty if it can.
    """

    index: int
    is_default: bool
    name: str
    kind: str
    api: str
    driver: str
    memory: int
    max_tensor: int
    used: str
    unused: str
    missing: str
    problem: str


class NoDevice(Exception):
    """Vulkan does not start on this machine, or finds no device; the message is one sentence."""


def list_devices(library: str) -> list[DeviceInfo]:
    """Return the Vulkan devices of this machine.

    Args:
        library: Path of the delegate's shared library.

    Raises:
        NoDevice: There is no Vulkan library, driver or device.
        OSError: The library does not load.
    """
    entry = ctypes.CDLL(library).edgecore_backend_v0
    entry.restype = ctypes.c_void_p
    table = entry()
    # The backend's table begins with its size; the address of the function that lists devices follows the table.
    size = ctypes.c_uint32.from_address(table).value
    address = ctypes.c_void_p.from_address(table + size).value
    function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64)(address or 0)
    text = ctypes.create_string_buffer(1 << 16)
    used = function(text, len(text))
    devices = []
    for line in text.raw[: min(used, len(text))].decode(errors="replace").splitlines():
        kind, *fields = line.split("\t")
        if kind == "problem":
            raise NoDevice(fields[0])
        index, is_default, name, device, api, driver, memory, most, used, unused, missing, problem = fields
        devices.append(
            DeviceInfo(
                int(index),
                is_default == "1",
                name,
                device,
                api,
                driver,
                int(memory),
                int(most),
                used,
                unused,
                missing,
                problem,
            )
        )
    return devices


def self_test(library: str) -> list[tuple[str, bool, str, str]]:
    """Return rows of `edgecore doctor` (check, passed, detail, remedy) about the Vulkan devices.

    Args:
        library: Path of the delegate's shared library.
    """
    try:
        devices = list_devices(library)
    except NoDevice as error:
        remedy = "apt-get install libvulkan1 mesa-vulkan-drivers, or the driver of the GPU's vendor"
        return [("devices", False, str(error), remedy)]
    rows = []
    for device in devices:
        if device.problem:
            rows.append((f"device {device.index}", False, device.problem, "update the driver of the GPU"))
            continue
        default = ", used by default" if device.is_default else ""
        facts = f"{device.name}, {device.kind}, Vulkan {device.api}, driver {device.driver}"
        memory = f"{_size(device.memory)} of memory, tensors up to {_size(device.max_tensor)}"
        rows.append((f"device {device.index}", True, f"{facts}, {memory}{default}", ""))
        parts = (("used", device.used), ("not used", device.unused), ("missing", device.missing))
        features = "; ".join(f"{label}: {names}" for label, names in parts if names)
        rows.append((f"features of device {device.index}", True, features, ""))
    return rows


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count // _MIB} MiB"
