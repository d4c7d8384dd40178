"""What can go wrong with a BMC, each with its own name, because each has its own remedy."""

from headnode.errors import HeadnodeError


class BmcFault(HeadnodeError):
    """A BMC could not do what it was asked; `status` is the word that fleet-wide output folds by."""

    status = "fault"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint or self.default_hint)

    default_hint = ""


class Unreachable(BmcFault):
    """Nothing ever came back: no cable, no power, a wrong address, or the wrong network."""

    status = "unreachable"
    default_hint = "check the BMC's cable, address and VLAN; a BMC that hangs is revived by removing power"


class TimedOut(BmcFault):
    """It is there, but it did not finish in time: overloaded, lossy, or restarting."""

    status = "timeout"
    default_hint = "the BMC answers too slowly or packets get lost; try again, then restart the BMC"


class WrongCredentials(BmcFault):
    """It knows us not: user, password or privilege."""

    status = "wrong credentials"
    default_hint = "set the right ones with 'headnode bmc set-password'; too many tries lock the account"


class NoFreeSession(BmcFault):
    """All its sessions are taken, by other tools or by our own past."""

    status = "no free session"
    default_hint = "close other tools that talk to this BMC, or wait a minute until it drops old sessions"


class Unsupported(BmcFault):
    """This BMC has no such function."""

    status = "unsupported"


class Refused(BmcFault):
    """It understood and said no; `code` is its completion code."""

    status = "refused"

    def __init__(self, message: str, *, code: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class BadAnswer(BmcFault):
    """It answered, authenticated and all, with something that makes no sense."""

    status = "bad answer"
    default_hint = "often a firmware bug: look for a BMC update"


class SaidYesDidNothing(BmcFault):
    """It accepted the command, and reading back shows that nothing happened."""

    status = "said yes, did nothing"
    default_hint = "restart the BMC; if it persists, the power button or boot order is locked in its setup"


class ConsoleTaken(BmcFault):
    """Somebody else holds the serial console (of the BMC, or of ours for writing)."""

    status = "console taken"
    default_hint = "leave the other console, or ask to share it"
