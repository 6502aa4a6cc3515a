"""Types of devices that other packages supply, found by entry points of the group `wrapper_ir.devices`."""

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
    """A type of device, as the entry point of its name in the group `wrapper_ir.devices` describes it.

    `interfaces` answer torch's questions about a device of each architecture (`Worker.get_device_properties` and so on), present
    or not. `here` names the architecture of this machine's device. The package registers its scheduling with Inductor and its
    modules with torch when it is imported, as torch has it.
    """

    interfaces: Mapping[str, Interface]
    here: Callable[[], str]

    def interface(self, name: str, arch: str) -> Interface:
        """The one for an architecture of the device `name`; raises CaptureError FE103."""
        found = self.interfaces.get(arch)
        if found is None:
            raise CaptureError(
                "FE103",
                f"{name} has no architecture {arch!r}",
                hint=f"take one of {', '.join(f'{name}:{known}' for known in self.interfaces)}",
            )
        return found


def device_package(name: str) -> DevicePackage | None:
    """What is known of a type of device; None where no package supplies it. Raises CaptureError FE370 for an entry point that
    does not load, or is of another kind."""
    if name not in plugin_names("devices"):
        return None
    try:
        found = plugin("devices", name)
    except PluginError as error:
        raise CaptureError("FE370", f"device {name!r}: {error.message}", hint=error.hint) from error
    if isinstance(found, DevicePackage):
        return found
    raise CaptureError(
        "FE370",
        f"the entry point {name!r} in group 'wrapper_ir.devices' is a {type(found).__name__}",
        hint="have it name an inductor_frontend.devices.DevicePackage",
    )


@contextmanager
def seen_as(name: str, interface: Interface) -> Iterator[None]:
    """While the context is active, torch asks `interface` about devices of this type."""
    device_interface.get_interface_for_device("cpu")  # registers torch's own, once a process
    table = {**device_interface.device_interfaces, name: interface, f"{name}:0": interface}
    with replaced(GPU_INTERFACES.by(device_interfaces=table)):
        yield
