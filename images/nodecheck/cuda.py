"""Start CUDA in a process of its own, as a program would: a broken driver may end it."""

import ctypes
import sys


def count() -> str:
    """How many devices there are, or what is wrong."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"libcuda.so.1 cannot be loaded: {error}"
    code = driver.cuInit(0)
    if code:
        return f"CUDA does not start: cuInit gives {code}{meaning(driver, code)}"
    found = ctypes.c_int(0)
    code = driver.cuDeviceGetCount(ctypes.byref(found))
    return f"CUDA cannot count: {code}" if code else str(found.value)


def meaning(driver: "ctypes.CDLL", code: int) -> str:
    words = ctypes.c_char_p()
    if driver.cuGetErrorString(code, ctypes.byref(words)) or not words.value:
        return ""
    return f" ({words.value.decode(errors='replace')})"


if __name__ == "__main__":
    sys.stdout.write(count() + "\n")
