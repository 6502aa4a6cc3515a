"""Packages: `.pt2` archives with one library, for torch's package loaders.

Members are not compressed, and the library begins at a page boundary: it is mapped from the archive.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from cpp_wrapper.errors import CacheError
from cpp_wrapper.library.image import PAGE, Image, read_image
from wrapper_ir.support.files import opened

SUFFIX = ".pt2"
_ROOT = "package"
_FOLDER = f"{_ROOT}/data/aotinductor/model"
_LIBRARY = f"{_FOLDER}/model.wrapper.so"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LOCAL = struct.Struct("<4s22xHH")
"""The local header of a member; only the lengths of its name and extra field are read."""
_PADDING = 0x4246
"""The extra field with which torch pads."""


def write_package(path: Path, device: str, write_library: Callable[[BinaryIO], None]) -> None:
    """Writes an archive; `write_library` writes its library. Raises OSError."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, text in (
            ("archive_format", "pt2"),
            ("archive_version", "0"),
            (".data/version", "6\n"),
            ("byteorder", "little"),
            ("data/aotinductor/model/model.wrapper_metadata.json", json.dumps({"AOTI_DEVICE_KEY": device})),
            # torch's loaders before 2.13 find the metadata by this name
            ("data/aotinductor/model/model.wrapper.cpp", "// built from an artifact of wrapper_ir\n"),
        ):
            archive.writestr(_member(f"{_ROOT}/{name}"), text)
        member = _member(_LIBRARY)
        assert archive.fp is not None  # the archive is open
        begin = archive.fp.tell() + _LOCAL.size + len(member.filename.encode())
        zip64 = 20  # bytes of a header for more than 4 GB
        padding = -(begin + zip64 + 4) % PAGE
        member.extra = struct.pack("<HH", _PADDING, padding) + bytes(padding)
        with archive.open(member, "w", force_zip64=True) as file:
            write_library(cast(BinaryIO, file))


def _member(name: str) -> zipfile.ZipInfo:
    """Returns a member with a fixed time: the same library always has the same bytes."""
    return zipfile.ZipInfo(name, _EPOCH)


def find_image(path: Path) -> Image:
    """Finds the library in an archive, or reads the file itself as one. Raises CacheError CPP304."""
    if path.suffix != SUFFIX:
        return read_image(path)
    try:
        with opened(path) as file:
            with zipfile.ZipFile(file) as archive:
                member = archive.getinfo(_LIBRARY)
                if member.compress_type != zipfile.ZIP_STORED:
                    raise KeyError("its library is compressed")
            file.seek(member.header_offset)
            _, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, struct.error) as error:
        hint = "build it with cpp_wrapper.build; torch._inductor.aoti_load_package opens other packages"
        raise CacheError("CPP304", f"{path} is not a package of this package: {error}", hint) from error
    return read_image(path, member.header_offset + _LOCAL.size + name + extra, member.file_size)
