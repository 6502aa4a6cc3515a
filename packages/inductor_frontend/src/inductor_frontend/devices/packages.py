"""Finds device types that other packages provide, by entry points of the group `wrapper_ir.devices`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from torch._dynamo import device_interface

from inductor_frontend.errors import CaptureError
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import GPU_INTERFACES
from wrapper_ir.errors import PluginError
from wrapper_ir.plugins.registry import plugin, plugin_names

Interface = type[device_interface.DeviceInterface]


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePackage:
    """A device type, described by the entry point of its name in the group `wrapper_ir.devices`.

    `interfaces` answer queries of torch about a device of each architecture (such as
    `Worker.get_device_properties`), whether the device is present or not. `here` returns the architecture of
    this machine's device. On import, the package registers its scheduling with Inductor and its modules with
    torch.
    """

    interfaces: Mapping[str, Interface]
    here: Callable[[], str]

    def interface(self, name: str, arch: str) -> Interface:
        """Returns the interface for an architecture of the device `name`; raises CaptureError FE103."""
        interface = self.interfaces.get(arch)
        if interface is None:
            raise CaptureError(
                "FE103",
                f"{name} has no architecture {arch!r}",
                hint=f"take one of {', '.join(f'{name}:{option}' for option in self.interfaces)}",
            )
        return interface


def device_package(name: str) -> DevicePackage | None:
    """Returns the package of a device type; None if no package provides it.

    Raises CaptureError FE370 for an entry point that does not load, or is not a DevicePackage.
    """
    if name not in plugin_names("devices"):
        return None
    try:
        package = plugin("devices", name)
    except PluginError as error:
        raise CaptureError("FE370", f"device {name!r}: {error.message}", hint=error.hint) from error
    if isinstance(package, DevicePackage):
        return package
    raise CaptureError(
        "FE370",
        f"the entry point {name!r} in group 'wrapper_ir.devices' is a {type(package).__name__}",
        hint="have it name an inductor_frontend.devices.DevicePackage",
    )


@contextmanager
def seen_as(name: str, interface: Interface) -> Iterator[None]:
    """Registers `interface` with torch for devices of this type, while the context is active."""
    device_interface.get_interface_for_device("cpu")  # registers torch's interfaces, once per process
    table = {**device_interface.device_interfaces, name: interface, f"{name}:0": interface}
    with replaced(GPU_INTERFACES.by(device_interfaces=table)):
        yield
