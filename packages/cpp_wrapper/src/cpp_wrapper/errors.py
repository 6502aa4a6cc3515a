"""Exceptions of cpp_wrapper, each with a stable code.

A released code never changes its meaning:

| code   | class        | meaning                                                              |
| ------ | ------------ | -------------------------------------------------------------------- |
| CPP101 | CompileError | no C++ compiler was found                                            |
| CPP102 | CompileError | the compiler refused a kernel                                        |
| CPP103 | CompileError | the compiler refused the launcher                                    |
| CPP104 | CompileError | the compiler ran longer than the time limit                          |
| CPP105 | CompileError | a header that a kernel includes is not installed                      |
| CPP106 | CompileError | the compiler or the linker refused a library                         |
| CPP201 | IsaError     | the host lacks an instruction set that a kernel was written for      |
| CPP202 | IsaError     | a kernel names an instruction set that this package does not know    |
| CPP302 | CacheError   | a library that was just built cannot be loaded                       |
| CPP303 | CacheError   | a library cannot be written                                          |
| CPP304 | CacheError   | a file is not a library of this package, or cannot be loaded         |
| CPP305 | CacheError   | a program with its own state cannot move to another library          |
| CPP306 | CacheError   | the file of a library's constants is missing, or has others          |
| CPP401 | KernelError  | a kernel definition is malformed, or two kernels share a name        |
| CPP402 | LaunchError  | wrong number of arguments                                            |
| CPP403 | LaunchError  | an argument is of the wrong Python type                              |
| CPP404 | LaunchError  | a tensor has the wrong dtype, device or layout                       |
| CPP405 | LaunchError  | an integer does not fit the parameter's type                         |
| CPP406 | LaunchError  | the kernel itself failed (integer division by zero, out of memory)   |
| CPP407 | KernelError  | the running torch lays out its tensor objects in an unknown way      |
| CPP501 | EmitError    | a step of a plan is not written in C++ by this edition               |
| CPP502 | EmitError    | an operator can be called by no C function of torch                  |
| CPP503 | EmitError    | a value, a signature or a device that a library cannot have          |
| CPP504 | EmitError    | a kernel that is not C++                                             |
| CPP505 | EmitError    | a program that a verifier would have refused                         |
| CPP506 | EmitError    | an option has an unknown name or value                               |
| CPP590 | DeviceError  | the CUDA driver is missing, too old, or finds no device              |
| CPP591 | DeviceError  | the CUDA driver refused a call                                       |
| CPP592 | DeviceError  | a library has no code for the device's architecture                  |
| CPP593 | LaunchError  | a launch whose grid, address or number its kernel does not take      |
| CPP594 | EmitError    | a kernel has no code for an architecture                             |
| CPP595 | (a warning)  | a function runs as it is, since it cannot be captured as a CUDA graph |
| CPP530 | ConstantError | values for constants that are unknown, missing, or of another type  |
| CPP531 | ConstantError | there is no second set of constants to swap in                      |
| CPP610 | OutputError  | a tensor of the caller cannot take an output                         |
| CPP611 | CopyError    | a loaded program is not copied, and not pickled                      |
| CPP620 | EmitError    | a number that 64 bits do not hold                                    |
| CPP540 | CppError     | processes share memory, and their programs have not been compared    |
| CPP580 | CppError     | torch is not installed, and what is asked for needs it               |
"""

from __future__ import annotations


class CppError(RuntimeError):
    """Base of all errors of this package, a RuntimeError as errors of Inductor's own kernels are.

    `code` is stable; `hint` suggests the next step.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(f"[{code}] {message}" + (f"\n  hint: {hint}" if hint else ""))


class CompileError(CppError):
    """The compiler is missing or refused the code (CPP1nn)."""


class IsaError(CppError):
    """The host cannot run the kernel's instructions (CPP2nn)."""


class CacheError(CppError):
    """The cache on disk cannot be used (CPP3nn)."""


class KernelError(CppError):
    """A kernel definition cannot be loaded (CPP401, CPP407)."""


class EmitError(CppError):
    """A program cannot be written as C++ (CPP5nn). The message names the op, its place and an alternative."""


class ConstantError(CppError, ValueError):
    """Constants of a loaded library cannot be changed in this way (CPP530, CPP531)."""


class DeviceError(CppError):
    """A CUDA device cannot be used, or cannot run a library's code (CPP590 to CPP592)."""


class LaunchError(CppError, TypeError):
    """A launch with arguments that do not fit the definition, or a kernel that failed (CPP402 to CPP406)."""


class OutputError(CppError, ValueError):
    """A caller's tensor cannot store an output (CPP610)."""


class CopyError(CppError, TypeError):
    """A loaded program cannot be copied or pickled (CPP611); a TypeError, as for other such objects."""


class KernelIndexError(LaunchError, IndexError):
    """An index of a kernel is out of bounds (CPP406)."""


def kernel_failure(code: str, message: str) -> LaunchError:
    """Returns the error of a failed kernel. The message of torch's check determines its class."""
    return (KernelIndexError if "index out of bounds" in message else LaunchError)(code, message)
