"""Who is there: BMCs by presence ping, and which driver a BMC is best reached with."""

import asyncio
import contextlib
import ipaddress

from headnode.errors import InvalidInput
from headnode.model import BmcDriver
from ipmi.bmc import Bmc
from ipmi.faults import BmcFault, Unreachable
from ipmi.ipmi_driver import IpmiBmc
from ipmi.readings import Credentials
from ipmi.rmcp.engine import IPMI_PORT, Engine
from ipmi.rmcp.packet import presence_ping, presence_pong
from ipmi.rmcp.socket import Address

HTTPS = 443
# A scan is for one management network, not for the neighbourhood.
MOST_ADDRESSES = 4096


async def scan(
    engine: Engine, network: str, *, port: int = IPMI_PORT, rounds: int = 2, wait: float = 0.7
) -> tuple[str, ...]:
    """The addresses of that network that answer as IPMI devices; asks nothing but "are you there?"."""
    hosts = addresses(network)
    found: set[str] = set()

    def heard(data: bytes, source: Address) -> None:
        if presence_pong(data) and source[1] == port and source[0] in wanted:
            found.add(source[0])

    wanted = set(hosts)
    engine.socket.others = heard
    known = {address[0] for address in engine.links}
    try:
        for tag in range(rounds):
            for number, host in enumerate(hosts):
                if host not in found and host not in known:
                    engine.socket.send(presence_ping(tag), (host, port))
                if number % 64 == 63:
                    await asyncio.sleep(0.005)  # gentle to switches and ARP tables
            await asyncio.sleep(wait)
    finally:
        engine.socket.others = None
    return tuple(host for host in hosts if host in found or host in known)


def addresses(network: str) -> list[str]:
    try:
        parsed = ipaddress.ip_network(network, strict=False)
    except ValueError as error:
        raise InvalidInput(f"'{network}' is not a network such as 10.21.0.0/24") from error
    if parsed.num_addresses > MOST_ADDRESSES:
        raise InvalidInput(f"{network} has {parsed.num_addresses} addresses; scan at most {MOST_ADDRESSES}")
    return [str(host) for host in parsed.hosts()]


async def connect(
    engine: Engine,
    host: str,
    credentials: Credentials,
    driver: BmcDriver = BmcDriver.AUTO,
    *,
    port: int = IPMI_PORT,
) -> Bmc:
    """The BMC behind its protocol; `auto` takes IPMI where it answers (consoles need it), else Redfish."""
    if driver is BmcDriver.REDFISH:
        return redfish(engine, host, credentials)
    bmc = IpmiBmc(await engine.link(host, credentials, port=port))
    if driver is BmcDriver.IPMI:
        return bmc
    try:
        await bmc.link.open()
    except Unreachable as silence:
        if not await listens(engine, host, HTTPS):
            # The link stays, and with it the back-off: asking again soon is answered at once.
            raise Unreachable(f"{silence.message}, and no Redfish", hint=silence.hint) from silence
        await bmc.close()
        return redfish(engine, host, credentials)
    except BmcFault:
        return bmc  # it speaks IPMI; what is wrong will be said by whoever asks it something
    return bmc


def redfish(engine: Engine, host: str, credentials: Credentials) -> Bmc:
    from ipmi.redfish_driver import RedfishBmc  # here: sushy takes long to import, and most sites never need it

    return RedfishBmc(f"https://{host}", credentials, local_address=engine.local_address)


async def listens(engine: Engine, host: str, port: int, timeout: float = 2.0) -> bool:
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port, local_addr=(engine.local_address, 0))
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
