"""The engine against BMCs with every kind of fault, on loopback."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from ipmi.faults import (
    BadAnswer,
    BmcFault,
    NoFreeSession,
    SaidYesDidNothing,
    TimedOut,
    Unreachable,
    Unsupported,
    WrongCredentials,
)
from ipmi.ipmi_driver import IpmiBmc
from ipmi.probe import addresses, scan
from ipmi.readings import Credentials, PowerAction, PowerState
from ipmi.requests import GET_CHASSIS_STATUS, GET_DEVICE_ID
from ipmi.rmcp.backoff import Backoff
from ipmi.rmcp.crypto import SUITE_3, SUITE_17, Suite
from ipmi.rmcp.engine import Engine
from ipmi.rmcp.link import Link
from ipmi.rmcp.packet import Request
from tests.ipmi.fake_bmc import FakeBmc, Faults, serving

ADMIN = Credentials("admin", "secret")
Result = TypeVar("Result")


def with_bmc(
    bmc: FakeBmc,
    story: Callable[[Link], Awaitable[Result]],
    *,
    credentials: Credentials = ADMIN,
    deadline: float = 3.0,
) -> Result:
    async def run() -> Result:
        async with serving(bmc) as port, Engine("127.0.0.1", deadline=deadline) as engine:
            return await story(await engine.link("127.0.0.1", credentials, port=port))

    return asyncio.run(run())


async def power(link: Link) -> PowerState:
    return await IpmiBmc(link).power()


@pytest.mark.parametrize("suite", [SUITE_3, SUITE_17])
def test_both_suites_log_in_and_log_out(suite: Suite) -> None:
    bmc = FakeBmc(suites=(suite,))
    assert with_bmc(bmc, power) is PowerState.OFF
    assert not bmc.sessions, "the session was not closed"


def test_the_stronger_suite_is_taken() -> None:
    async def story(link: Link) -> list[Suite]:
        await link.ask(GET_DEVICE_ID)
        return link.suites

    assert with_bmc(FakeBmc(), story) == [SUITE_17]


def test_no_common_suite_is_said() -> None:
    with pytest.raises(Unsupported, match="neither cipher suite 17 nor 3"):
        with_bmc(FakeBmc(suites=()), power)


def test_one_session_serves_many_commands() -> None:
    bmc = FakeBmc()

    async def story(link: Link) -> int:
        await asyncio.gather(*(link.ask(GET_CHASSIS_STATUS) for _ in range(50)))
        return len(bmc.sessions)

    assert with_bmc(bmc, story) == 1
    assert sum(command == GET_CHASSIS_STATUS for command in bmc.commands) == 50


def test_commands_to_one_bmc_never_overlap() -> None:
    bmc = FakeBmc(faults=Faults(delay=0.005))
    waiting = 0
    most = 0
    original = bmc.execute

    def watch(half: object, request: Request) -> tuple[int, bytes]:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        asyncio.get_running_loop().call_later(0.004, finish)
        return original(half, request)  # type: ignore[arg-type]

    def finish() -> None:
        nonlocal waiting
        waiting -= 1

    bmc.execute = watch  # type: ignore[method-assign]

    async def story(link: Link) -> None:
        await asyncio.gather(*(link.ask(GET_CHASSIS_STATUS) for _ in range(10)))

    with_bmc(bmc, story)
    assert most == 1


class TestFaults:
    def test_silent(self) -> None:
        started = time.monotonic()
        with pytest.raises(Unreachable, match=r"no answer within 0\.5 s"):
            with_bmc(FakeBmc(faults=Faults(silent=True)), power, deadline=0.5)
        assert time.monotonic() - started < 2

    def test_wrong_password_at_once_and_without_a_half_open_session(self) -> None:
        bmc = FakeBmc(password="other")
        started = time.monotonic()
        with pytest.raises(WrongCredentials, match="another password"):
            with_bmc(bmc, power)
        assert time.monotonic() - started < 2
        assert not bmc.sessions

    def test_unknown_user(self) -> None:
        with pytest.raises(WrongCredentials, match="no user 'nobody'"):
            with_bmc(FakeBmc(), power, credentials=Credentials("nobody", "secret"))

    def test_no_free_session(self) -> None:
        with pytest.raises(NoFreeSession):
            with_bmc(FakeBmc(faults=Faults(most_sessions=0)), power)

    def test_a_bmc_that_cannot_prove_the_session_key_is_not_trusted(self) -> None:
        with pytest.raises(WrongCredentials, match="session key"):
            with_bmc(FakeBmc(faults=Faults(wrong_session_proof=True)), power)

    def test_a_key_of_the_bmc_itself(self) -> None:
        bmc = FakeBmc(bmc_key=b"site key")
        assert with_bmc(bmc, power, credentials=Credentials("admin", "secret", b"site key")) is PowerState.OFF
        with pytest.raises(WrongCredentials, match="session key"):
            with_bmc(bmc, power)

    @pytest.mark.parametrize("in_login", [True, False])
    def test_an_operator_is_enough_for_power(self, in_login: bool) -> None:
        faults = Faults(highest_role=3, refuse_role_in_login=in_login)
        assert with_bmc(FakeBmc(faults=faults), power) is PowerState.OFF

    def test_a_mere_user_is_not(self) -> None:
        with pytest.raises(WrongCredentials, match="neither administrator nor operator"):
            with_bmc(FakeBmc(faults=Faults(highest_role=2)), power)

    def test_garbage_among_the_answers_is_ignored(self) -> None:
        assert with_bmc(FakeBmc(faults=Faults(garbage=True)), power) is PowerState.OFF

    def test_slow_answers_are_a_timeout_of_their_own(self) -> None:
        """The first time nothing was heard in time; when the late answers come, they are noticed."""

        async def story(link: Link) -> tuple[BmcFault, BmcFault]:
            with pytest.raises(BmcFault) as first:
                await link.ask(GET_DEVICE_ID)
            await asyncio.sleep(0.6)
            link.forgive()
            with pytest.raises(BmcFault) as second:
                await link.ask(GET_DEVICE_ID)
            return first.value, second.value

        first, second = with_bmc(FakeBmc(faults=Faults(delay=0.8)), story, deadline=0.4)
        assert isinstance(first, Unreachable)
        assert isinstance(second, TimedOut)
        assert "answers, but only after about" in second.message

    def test_a_third_of_packets_lost_still_works_mostly(self) -> None:
        async def story(link: Link) -> int:
            good = 0
            for _ in range(10):
                link.forgive()
                try:
                    await link.ask(GET_CHASSIS_STATUS)
                    good += 1
                except TimedOut:
                    pass
            return good

        assert with_bmc(FakeBmc(faults=Faults(drop=0.3)), story) >= 7

    def test_said_yes_did_nothing(self) -> None:
        async def story(link: Link) -> None:
            await IpmiBmc(link, settle=0.3).set_power(PowerAction.ON)

        with pytest.raises(SaidYesDidNothing, match="accepted 'power on'"):
            with_bmc(FakeBmc(faults=Faults(stuck=True)), story)

    def test_a_short_answer_is_a_bad_answer(self) -> None:
        bmc = FakeBmc(answers={(0, 1): lambda data: (0, b"")})
        with pytest.raises(BadAnswer):
            with_bmc(bmc, power)

    def test_an_unknown_name(self) -> None:
        async def run() -> None:
            async with Engine("127.0.0.1") as engine:
                await engine.link("no-such-bmc.invalid", ADMIN)

        with pytest.raises(Unreachable, match="has no address"):
            asyncio.run(run())


class TestRecovery:
    def test_a_restarted_bmc_gets_a_new_session_within_the_deadline(self) -> None:
        bmc = FakeBmc()

        async def story(link: Link) -> PowerState:
            await link.ask(GET_DEVICE_ID)
            bmc.sessions.clear()
            return await power(link)

        assert with_bmc(bmc, story) is PowerState.OFF
        assert not bmc.sessions

    def test_failures_are_not_repeated_before_their_time(self) -> None:
        bmc = FakeBmc(faults=Faults(silent=True))

        async def story(link: Link) -> tuple[float, int]:
            for _ in range(2):
                started = time.monotonic()
                with pytest.raises(Unreachable):
                    await link.ask(GET_DEVICE_ID)
            return time.monotonic() - started, bmc.received

        took, received = with_bmc(bmc, story, deadline=0.3)
        assert took < 0.25
        assert received == 1

    def test_new_credentials_are_tried_at_once(self) -> None:
        async def run() -> PowerState:
            bmc = FakeBmc()
            async with serving(bmc) as port, Engine("127.0.0.1") as engine:
                link = await engine.link("127.0.0.1", Credentials("admin", "wrong"), port=port)
                with pytest.raises(WrongCredentials):
                    await power(link)
                return await power(await engine.link("127.0.0.1", ADMIN, port=port))

        assert asyncio.run(run()) is PowerState.OFF

    def test_idle_sessions_are_kept_alive(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ipmi.rmcp.engine.KEEP_ALIVE", 0.5)
        bmc = FakeBmc()

        async def story(link: Link) -> int:
            await link.ask(GET_CHASSIS_STATUS)
            await asyncio.sleep(2.3)
            return sum(command == GET_DEVICE_ID for command in bmc.commands)

        assert with_bmc(bmc, story) >= 1


def test_a_bad_bmc_does_not_slow_the_others() -> None:
    async def run() -> float:
        good, bad = [FakeBmc() for _ in range(30)], [FakeBmc(faults=Faults(silent=True)) for _ in range(30)]
        async with Engine("127.0.0.1", deadline=1.0) as engine:
            links, ends = [], []
            for bmc in (*good, *bad):
                server = serving(bmc)
                links.append(await engine.link("127.0.0.1", ADMIN, port=await server.__aenter__()))
                ends.append(server)
            asked = [asyncio.create_task(link.ask(GET_DEVICE_ID)) for link in links[30:]]
            await asyncio.sleep(0)
            started = time.monotonic()
            await asyncio.gather(*(link.ask(GET_DEVICE_ID) for link in links[:30]))
            took = time.monotonic() - started
            assert all(isinstance(e, Unreachable) for e in await asyncio.gather(*asked, return_exceptions=True))
            for server in ends:
                await server.__aexit__(None, None, None)
            return took

    assert asyncio.run(run()) < 0.5


def test_scan_finds_who_answers() -> None:
    async def run() -> tuple[str, ...]:
        async with (
            serving(FakeBmc(), "127.9.8.2", 6230),
            serving(FakeBmc(), "127.9.8.5", 6230),
            Engine("127.0.0.1") as engine,
        ):
            return await scan(engine, "127.9.8.0/29", port=6230, wait=0.5)

    assert asyncio.run(run()) == ("127.9.8.2", "127.9.8.5")


def test_scans_are_bounded() -> None:
    with pytest.raises(Exception, match="scan at most"):
        addresses("10.0.0.0/8")


def test_the_password_is_in_no_representation() -> None:
    credentials = Credentials("admin", "canary-4711", b"canary-kg")
    assert "canary" not in repr(credentials)
    assert "canary" not in str(credentials)


class TestBackoff:
    def test_it_doubles_up_to_a_limit_with_jitter(self) -> None:
        backoff = Backoff(first=1, longest=10)
        waits = []
        for _ in range(6):
            backoff.failed(now=100.0, chance=0.0)
            waits.append(backoff.remaining(100.0))
        assert waits == [0.5, 1, 2, 4, 5, 5]
        backoff.failed(now=100.0, chance=0.999)
        assert 9.9 < backoff.remaining(100.0) <= 10

    def test_success_forgets(self) -> None:
        backoff = Backoff()
        backoff.failed(now=1.0, chance=0.5)
        backoff.succeeded()
        assert backoff.remaining(1.0) == 0
        backoff.failed(now=1.0, chance=0.0)
        assert backoff.remaining(1.0) == 0.5

    def test_some_failures_wait_longer(self) -> None:
        backoff = Backoff()
        backoff.failed(now=0.0, chance=0.0, at_least=30)
        assert backoff.remaining(10.0) == 20

    def test_a_thousand_failures_do_not_overflow(self) -> None:
        backoff = Backoff()
        for _ in range(5000):
            backoff.failed(now=0.0, chance=0.5)
        assert backoff.remaining(0.0) <= 60
