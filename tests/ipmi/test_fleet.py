"""Many nodes at once: outcomes per node, and who may start when."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.errors import InvalidInput, NotFound
from headnode.model import BmcDriver
from ipmi.bmc import Bmc
from ipmi.fleet import Fleet, Target, each
from ipmi.readings import Credentials, PowerAction, PowerState
from ipmi.stagger import Start, Starter, plan
from tests.ipmi.fake_bmc import FakeBmc, Faults, serving

ADMIN = Credentials("admin", "secret")


class TestPlan:
    def test_a_rack_starts_in_waves(self) -> None:
        nodes = [Starter(f"gpu{n:02d}", 6000, "r1") for n in range(5)]
        assert plan(nodes, {"r1": 17000}, surge_seconds=10) == (
            Start(0, "gpu00"),
            Start(0, "gpu01"),
            Start(10, "gpu02"),
            Start(10, "gpu03"),
            Start(20, "gpu04"),
        )

    def test_racks_do_not_wait_for_each_other(self) -> None:
        nodes = [Starter(f"{rack}n{n}", 1000, rack) for rack in ("r1", "r2") for n in range(2)]
        starts = {start.name: start.at for start in plan(nodes, {"r1": 1000, "r2": 1000})}
        assert starts == {"r1n0": 0, "r1n1": 10, "r2n0": 0, "r2n1": 10}

    def test_what_runs_already_counts(self) -> None:
        nodes = [Starter("a", 1000, "r1"), Starter("b", 1000, "r1")]
        assert [s.at for s in plan(nodes, {"r1": 3000}, {"r1": 1500})] == [0, 10]

    def test_without_a_budget_all_start_at_once(self) -> None:
        nodes = [Starter("a", 9e9, "r9"), Starter("b", 9e9)]
        assert {s.at for s in plan(nodes, {"r1": 1})} == {0}

    def test_a_node_that_can_never_start_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="needs 2000 W to start, but rack r1 has 1500 W"):
            plan([Starter("a", 2000, "r1")], {"r1": 1500})

    @given(
        st.lists(st.tuples(st.sampled_from(["r1", "r2", None]), st.floats(1, 1000)), max_size=60),
        st.floats(1000, 5000),
    )
    def test_no_wave_exceeds_its_budget_and_nobody_is_forgotten(
        self, nodes: list[tuple[str | None, float]], budget: float
    ) -> None:
        starters = [Starter(f"n{n}", watts, rack) for n, (rack, watts) in enumerate(nodes)]
        by_name = {starter.name: starter for starter in starters}
        starts = plan(starters, {"r1": budget, "r2": budget})
        assert sorted(start.name for start in starts) == sorted(by_name)
        waves: dict[tuple[str, float], float] = defaultdict(float)
        for start in starts:
            rack = by_name[start.name].rack
            if rack is not None:
                waves[rack, start.at] += by_name[start.name].watts
        assert all(watts <= budget * (1 + 1e-9) for watts in waves.values())


def in_fleet(bmcs: dict[str, FakeBmc], story: Callable[[Fleet], Awaitable[None]]) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack, Fleet("127.0.0.1", deadline=0.5) as fleet:
            for name, bmc in bmcs.items():
                port = await stack.enter_async_context(serving(bmc))
                await fleet.add(Target(name, "127.0.0.1", ADMIN, BmcDriver.IPMI, port))
            await story(fleet)

    asyncio.run(run())


async def switched_on(bmc: Bmc) -> PowerState:
    return await bmc.set_power(PowerAction.ON)


class TestFleet:
    def test_each_node_has_its_outcome(self) -> None:
        async def story(fleet: Fleet) -> None:
            await fleet.add(Target("gone", "127.42.9.9", ADMIN, BmcDriver.IPMI))
            said = await fleet.power_status(["a", "b", "c", "gone"])
            assert {name: outcome.status for name, outcome in said.items()} == {
                "a": "on",
                "b": "off",
                "c": "wrong credentials",
                "gone": "unreachable",
            }
            assert said["a"].ok
            assert not said["gone"].ok

        in_fleet({"a": FakeBmc(on=True), "b": FakeBmc(), "c": FakeBmc(password="x")}, story)

    def test_progress_comes_before_the_slowest(self) -> None:
        async def story(fleet: Fleet) -> None:
            order = [outcome.name async for outcome in fleet.ask(["slow", "fast"], lambda bmc: bmc.power())]
            assert order == ["fast", "slow"]

        in_fleet({"slow": FakeBmc(faults=Faults(delay=0.05)), "fast": FakeBmc()}, story)

    def test_starts_follow_the_plan(self) -> None:
        bmcs = {name: FakeBmc() for name in "abc"}

        async def story(fleet: Fleet) -> None:
            begun = time.monotonic()

            async def switch(name: str) -> str:
                await fleet.one(name, switched_on)
                return name

            starts = {"b": 0.4, "c": 0.8}
            when = {name: time.monotonic() - begun async for name in each("abc", switch, starts=starts)}
            assert when["a"] < 0.4 <= when["b"] < 0.8 <= when["c"]
            assert all(bmc.on for bmc in bmcs.values())

        in_fleet(bmcs, story)

    def test_no_more_at_once_than_the_fan_out(self) -> None:
        async def story() -> None:
            busy = most = 0

            async def work(name: str) -> str:
                nonlocal busy, most
                busy += 1
                most = max(most, busy)
                await asyncio.sleep(0.001)
                busy -= 1
                return name

            names = [f"n{number}" for number in range(50)]
            assert sorted([name async for name in each(names, work, fanout=7)]) == sorted(names)
            assert most == 7

        asyncio.run(story())

    def test_stopping_early_leaves_the_rest_as_it_is(self) -> None:
        bmcs = {name: FakeBmc() for name in "ab"}

        async def story(fleet: Fleet) -> None:
            switching = each("ab", lambda name: fleet.one(name, switched_on), starts={"b": 5})
            async with aclosing(switching) as outcomes:
                async for _ in outcomes:
                    break
            await asyncio.sleep(0.05)
            assert [bmc.on for bmc in bmcs.values()] == [True, False]

        in_fleet(bmcs, story)

    def test_auto_finds_ipmi_and_says_when_there_is_nothing(self) -> None:
        async def story(fleet: Fleet) -> None:
            await fleet.add(replace(fleet.targets["a"], driver=BmcDriver.AUTO))
            await fleet.add(Target("gone", "127.42.9.9", ADMIN))
            said = await fleet.power_status(["a", "gone"])
            assert said["a"].status == "off"
            assert said["gone"].fault is not None
            assert said["gone"].fault.message.endswith("and no Redfish")
            begun = time.monotonic()
            assert (await fleet.power_status(["gone"]))["gone"].status == "unreachable"
            assert time.monotonic() - begun < 0.3, "a silent BMC is not asked again at once"

        in_fleet({"a": FakeBmc()}, story)

    def test_a_node_without_bmc(self) -> None:
        async def story(fleet: Fleet) -> None:
            with pytest.raises(NotFound, match="node 'x' has no BMC"):
                await fleet.bmc("x")

        in_fleet({}, story)

    def test_removing_logs_out_and_a_new_password_is_used(self) -> None:
        bmc = FakeBmc(password="new")

        async def story(fleet: Fleet) -> None:
            assert (await fleet.power_status(["a"]))["a"].status == "wrong credentials"
            await fleet.add(replace(fleet.targets["a"], credentials=Credentials("admin", "new")))
            assert (await fleet.power_status(["a"]))["a"].status == "off"
            await fleet.remove("a")
            assert not bmc.sessions
            assert not fleet.engine.links

        in_fleet({"a": bmc}, story)
