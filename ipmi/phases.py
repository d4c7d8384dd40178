"""Where a machine is in its start, read from what it says on its console. Pure."""

import re
from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    FIRMWARE = "firmware"
    PXE = "pxe"
    BOOT_LOADER = "boot loader"
    KERNEL = "kernel"
    LOGIN = "login"
    PANIC = "panic"
    # What a machine stops at: it waits for a person, or tries again for ever.
    PXE_ERROR = "pxe error"
    GRUB_RESCUE = "grub rescue"


# In order of urgency: the first that matches a line names it.
PATTERNS: Final[tuple[tuple[Phase, bytes], ...]] = (
    (
        Phase.PANIC,
        (
            rb"Kernel panic - not syncing|end Kernel panic|BUG: unable to handle|Oops: [0-9a-f]{4}"
            rb"|general protection fault|You are in emergency mode|\(initramfs\) *$"
        ),
    ),
    (
        Phase.GRUB_RESCUE,
        (
            rb"^(?:grub rescue|grub)> *$|Entering rescue mode|[Nn]o bootable device|No [Bb]oot(?:able)? [Dd]evice"
            rb"|Boot Failed"
        ),
    ),
    (
        Phase.PXE_ERROR,
        rb"PXE-E\d\d|Media test failure|No more network devices|Link:down, TX|could not start from its disk",
    ),
    (Phase.LOGIN, rb"(?:^|\s)[A-Za-z0-9._-]+ login: *$"),
    (Phase.KERNEL, rb"Linux version \d|^\[ {4}0\.0{6}\]|Booting Linux on physical CPU|EFI stub: "),
    (Phase.BOOT_LOADER, rb"GNU GRUB +version|Welcome to GRUB|Loading Linux |Loading initial ramdisk"),
    (
        Phase.PXE,
        (
            rb"iPXE (?:\d|initialising)|Start PXE over IPv[46]|Start HTTP Boot|PXELINUX"
            rb"|Configuring \(net\d|net\d: [0-9a-f:]{17} using"
        ),
    ),
    (
        Phase.FIRMWARE,
        (
            rb"SeaBIOS|BdsDxe|American Megatrends|AMIBIOS|Phoenix(?:BIOS| Technologies)|UEFI firmware"
            rb"|Press .{1,8} to (?:enter|run) [Ss]etup|TianoCore|System Memory Initiali[sz]"
        ),
    ),
)
COMPILED: Final = tuple((phase, re.compile(pattern, re.MULTILINE)) for phase, pattern in PATTERNS)
# Colours and cursor movements; firmware menus are full of them.
ESCAPES: Final = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[()][A-Z0-9]|[=>78DEMH])")
LONGEST_LINE: Final = 512


class PhaseRecogniser:
    """Fed with chunks as they come; reports a phase when it begins, not on each line that belongs to it."""

    def __init__(self) -> None:
        self.current: Phase | None = None
        self.line = b""
        # The line that showed each phase last.
        self.shown: dict[Phase, bytes] = {}

    def feed(self, data: bytes) -> list[Phase]:
        text = ESCAPES.sub(b"", self.line + data).replace(b"\r", b"\n")
        *lines, self.line = text.split(b"\n")
        # A login prompt has no line end: it waits for an answer. So look at the unfinished line too.
        begun = [phase for line in (*lines, self.line) if (phase := self.enter(line)) is not None]
        self.line = self.line[-LONGEST_LINE:]
        return begun

    def enter(self, line: bytes) -> Phase | None:
        phase = recognise(line)
        if phase is None or phase is self.current:
            return None
        self.current = phase
        self.shown[phase] = line.strip()[-LONGEST_LINE:]
        return phase


def recognise(line: bytes) -> Phase | None:
    if not line.strip():
        return None
    return next((phase for phase, pattern in COMPILED if pattern.search(line)), None)
