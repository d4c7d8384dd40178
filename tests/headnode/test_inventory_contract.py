"""One contract for the inventory, kept by SQLite and by PostgreSQL."""

import itertools
import multiprocessing
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from headnode.errors import HeadnodeError, Taken
from headnode.inventory import Change, Inventory, dumps
from headnode.inventory.engine import HEAD, alembic_config, open_engine, sqlite_url
from headnode.inventory.history import among_milestones
from headnode.inventory.tables import events, group_members, metadata, nics
from headnode.model import Intent, Nic, Node, State
from tests.support import bmc, event_about, mac, node_of

NUMBERS = itertools.count()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield str(sqlite_url(tmp_path / "inventory.db"))
        return
    with request.getfixturevalue("postgres").database(f"contract{next(NUMBERS)}") as made:
        yield made


@pytest.fixture
def inventory(url: str) -> Iterator[Inventory]:
    made = Inventory.open(url, Path("unused"))
    yield made
    made.close()


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    """The database past the inventory, for what it would never do itself."""
    made = open_engine(url)
    yield made
    made.dispose()


def test_an_empty_inventory_has_no_nodes_events_or_files(inventory: Inventory) -> None:
    assert inventory.nodes() == []
    assert inventory.count() == 0
    assert inventory.events() == []
    assert inventory.published_files() == {}
    assert inventory.fact("nothing", "default") == "default"


def test_a_node_comes_back_as_it_was_added(inventory: Inventory) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    node = replace(
        node_of(1), rack="r1", position=7, groups=("a100", "z"), locked=True, settings={"kernel_args": ["quiet"]},
        state=State.DEPLOYING, intent=Intent.DEPLOY, phase="copy", reason="because", deadline=moment,
    )  # fmt: skip
    with inventory.change("tester", "a test") as change:
        change.add([node])
    found = inventory.node("gpu01")
    assert found is not None
    assert found.id > 0
    assert replace(found, id=0, revision=0) == node


def test_groups_come_back_in_one_order_whatever_the_database_thinks_of_capitals(inventory: Inventory) -> None:
    groups = ("B", "_", "a", "b-c", "bc")
    with inventory.change("tester", "a test") as change:
        change.add([replace(node_of(1), groups=groups)])
    assert inventory.nodes()[0].groups == tuple(sorted(groups))


def test_moments_are_the_same_moment_in_any_time_zone(inventory: Inventory) -> None:
    east = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=5)))
    with inventory.change("tester", "a test") as change:
        change.add([replace(node_of(1), deadline=east)])
    found = inventory.nodes()[0].deadline
    assert found == east
    assert found is not None
    assert found.utcoffset() == timedelta(0)


def test_history_cannot_be_changed(inventory: Inventory, engine: sa.Engine) -> None:
    with inventory.change("tester", "a test") as change:
        change.record_all([event_about("gpu01")])
    for statement in (sa.update(events).values(message="it never happened"), sa.delete(events)):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), engine.begin() as connection:
            connection.execute(statement)
    assert [event.message for event in inventory.events()] == ["it happened"]


def happened(inventory: Inventory, *kinds: str, node: str = "gpu01", days_ago: float = 0) -> list[int]:
    """Events of these kinds; their numbers."""
    at = datetime.now(UTC) - timedelta(days=days_ago)
    before = inventory.newest_event()
    with inventory.change("tester", "a test") as change:
        change.record_all(replace(event_about(node), kind=kind, at=at) for kind in kinds)
    return [event.id for event in inventory.events(after=before, limit=1000)]


def test_milestones_are_found_among_everything_else(inventory: Inventory) -> None:
    asked, _, failed = happened(inventory, "deploy", "http", "failed")
    happened(inventory, *["dhcp.ack"] * 500)
    (verified,) = happened(inventory, "verify")
    happened(inventory, "verify", node="gpu02")
    found = inventory.history.milestones("gpu01", limit=10)
    assert [event.id for event in found] == [asked, failed, verified]
    assert [event.id for event in inventory.history.milestones("gpu01", limit=1)] == [verified]
    newest = inventory.history.newest("verify", ["gpu01", "gpu02", "gpu03"])
    assert {name: event.id for name, event in newest.items()} == {"gpu01": verified, "gpu02": verified + 1}
    onwards = inventory.history.onwards("gpu01", failed, limit=3)
    assert [event.kind for event in onwards] == ["failed", "dhcp.ack", "dhcp.ack"]


def test_milestones_are_looked_for_nowhere_else(tmp_path: Path) -> None:
    """SQLite says how it would look: in the small index, and never through all that happened to a node."""
    made = open_engine(sqlite_url(tmp_path / "inventory.db"))
    query = among_milestones(sa.select(events)).where(events.c.node == "gpu01").order_by(events.c.id.desc())
    plain = query.compile(made, compile_kwargs={"literal_binds": True})
    with made.connect() as connection:
        plan = " ".join(str(row) for row in connection.execute(sa.text(f"EXPLAIN QUERY PLAN {plain}")))
    made.dispose()
    assert "SEARCH events USING INDEX ix_events_milestone (node=?)" in plan
    assert "TEMP B-TREE" not in plan


def test_the_past_is_forgotten_in_small_steps(inventory: Inventory) -> None:
    happened(inventory, "deploy", *["http"] * 5, "failed", days_ago=200)
    kept = happened(inventory, "http", "dhcp.ack", days_ago=10)
    before = datetime.now(UTC) - timedelta(days=180)
    assert inventory.history.forget(before, most=4) == 3, "the milestone among the first four stays"
    assert inventory.history.forget(before, most=4) == 2
    assert inventory.history.forget(before, most=4) is None, "what is left is newer"
    left = inventory.events()
    assert [event.kind for event in left] == ["deploy", "failed", "http", "dhcp.ack"]
    assert [event.id for event in left][2:] == kept


def test_an_event_from_the_future_stops_nobody_and_stays(inventory: Inventory) -> None:
    """It was written while the clock of the head node was years ahead."""
    (ahead,) = happened(inventory, "http", days_ago=-2000)
    happened(inventory, "http", "http", days_ago=200)
    (between,) = happened(inventory, "http", days_ago=-1)
    happened(inventory, "http", days_ago=200)
    kept = happened(inventory, "http", "http", days_ago=10)
    before = datetime.now(UTC) - timedelta(days=180)
    assert inventory.history.forget(before, most=2) == 2
    assert inventory.history.forget(before, most=2) == 1
    assert inventory.history.forget(before, most=2) is None
    assert [event.id for event in inventory.events()] == [ahead, between, *kept]


def test_the_newest_event_is_never_forgotten(inventory: Inventory) -> None:
    """Its number would be given to another, and whoever remembers how far he has read would miss that."""
    numbers = happened(inventory, "http", "http", days_ago=400)
    assert inventory.history.forget(datetime.now(UTC), most=100) == 1
    assert inventory.history.forget(datetime.now(UTC), most=100) is None
    assert inventory.newest_event() == numbers[-1]
    assert happened(inventory, "http") == [numbers[-1] + 1]


def test_nothing_else_can_be_deleted_though_some_was_forgotten(inventory: Inventory, engine: sa.Engine) -> None:
    happened(inventory, "http", "failed", "http", days_ago=400)
    happened(inventory, "http", "http")
    assert inventory.history.forget(datetime.now(UTC) - timedelta(days=180), most=100) == 2
    before = inventory.events()
    for chosen in (events.c.kind == "failed", events.c.kind == "http"):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), engine.begin() as connection:
            connection.execute(sa.delete(events).where(chosen))
    assert inventory.events() == before


def test_events_know_who_what_and_why_and_come_oldest_first(inventory: Inventory) -> None:
    with inventory.change("alice", "headnode enroll") as change:
        change.record("enroll", "enrolled", node="gpu01", data={"mac": mac(1)})
        change.record("publish", "published")
    first, second = inventory.events()
    assert (first.kind, first.node, first.actor, first.cause) == ("enroll", "gpu01", "alice", "headnode enroll")
    assert first.data == {"mac": mac(1)}
    assert first.at is not None
    assert first.at.utcoffset() == timedelta(0)
    assert [event.id for event in inventory.events("gpu01")] == [first.id]
    assert [event.id for event in inventory.events(limit=1)] == [second.id]
    assert [event.id for event in inventory.events(after=first.id)] == [second.id]


@pytest.mark.parametrize(
    "other",
    [
        replace(node_of(2), name="gpu01"),
        replace(node_of(2), nics=(replace(node_of(2).nics[0], mac=mac(1)),)),
        replace(node_of(2), nics=(replace(node_of(2).nics[0], address="10.20.1.1"),)),
        replace(node_of(2), bmc=node_of(1).bmc),
    ],
    ids=["name", "mac", "address", "bmc"],
)
def test_nothing_belongs_to_two_nodes(inventory: Inventory, other: object) -> None:
    with inventory.change("tester", "a test") as change:
        change.add([node_of(1)])
    with pytest.raises(Taken), inventory.change("tester", "a test") as change:
        change.add([other])  # type: ignore[list-item]
    assert [node.name for node in inventory.nodes()] == ["gpu01"]


def test_nodes_can_swap_what_they_have(inventory: Inventory) -> None:
    with inventory.change("tester", "a test") as change:
        change.add([node_of(1), node_of(2)])
    with inventory.change("tester", "a test") as change:
        one, two = change.nodes()
        change.replace([replace(one, nics=two.nics, bmc=two.bmc), replace(two, nics=one.nics, bmc=one.bmc)])
    one, two = inventory.nodes()
    assert (one.mac, one.address, one.bmc and one.bmc.address) == (mac(2), "10.20.1.2", bmc(2))
    assert (two.mac, two.address, two.bmc and two.bmc.address) == (mac(1), "10.20.1.1", bmc(1))


def change_much_and_fail(change: Change) -> None:
    change.add([node_of(1)])
    change.record_all([event_about("gpu01")])
    change.set_fact("key", "value")
    change.remember_published({"a/file": 1}, [])
    raise ZeroDivisionError


def test_a_change_that_fails_never_happened(inventory: Inventory) -> None:
    with pytest.raises(ZeroDivisionError), inventory.change("tester", "a test") as change:
        change_much_and_fail(change)
    assert inventory.nodes() == []
    assert inventory.events() == []
    assert inventory.fact("key") == ""
    assert inventory.published_files() == {}
    assert inventory.changed_since(-1)[0] == 0


def test_every_change_has_a_higher_revision_than_all_before(inventory: Inventory) -> None:
    seen = []
    for number in range(1, 6):
        with inventory.change("tester", "a test") as change:
            change.add([node_of(number)])
            seen.append(change.revision)
    assert seen == sorted({*seen})
    assert inventory.changed_since(0)[0] == seen[-1]
    assert [node.name for node in inventory.changed_since(seen[2])[1]] == ["gpu04", "gpu05"]
    assert [node.revision for node in inventory.nodes()] == seen


def test_retired_nodes_are_listed_only_when_asked_for(inventory: Inventory) -> None:
    with inventory.change("tester", "a test") as change:
        change.add([node_of(1), replace(node_of(2), state=State.RETIRED, groups=("a100",))])
    assert [node.name for node in inventory.nodes()] == ["gpu01"]
    assert [node.name for node in inventory.nodes(["gpu01", "gpu02"])] == ["gpu01"]
    assert [node.name for node in inventory.nodes(retired=True)] == ["gpu01", "gpu02"]
    assert inventory.names() == ["gpu01"]
    assert inventory.groups() == {}
    assert inventory.count() == 1


def test_names_are_found_by_how_they_begin_and_wildcards_mean_nothing(inventory: Inventory) -> None:
    with inventory.change("tester", "a test") as change:
        change.add([node_of(1), replace(node_of(2), name="cpu02")])
    assert inventory.names("g") == ["gpu01"]
    assert inventory.names("%") == []
    assert inventory.names("_pu") == []


def test_more_nodes_than_one_statement_takes(inventory: Inventory) -> None:
    many = [replace(node_of(n, f"10.20.{n >> 8}.{n & 255}"), name=f"gpu{n:04}") for n in range(1, 1203)]
    with inventory.change("tester", "a test") as change:
        change.add(many)
    assert inventory.count() == 1202
    assert len(inventory.nodes([node.name for node in many])) == 1202
    with inventory.change("tester", "a test") as change:
        change.replace([replace(node, locked=True) for node in change.nodes([node.name for node in many])])
    assert all(node.locked and node.mac for node in inventory.nodes())


def start(inventory: Inventory, deadline: datetime) -> tuple[int, str]:
    with inventory.change("tester", "a test") as change:
        change.add([node_of(1)])
        node = change.nodes()[0]
        deployment = change.start_deployment(node, Intent.DEPLOY, deadline, "gpu@1")
        return deployment.id, change.issue_token(deployment, node.address or "")


def claim(inventory: Inventory, token: str, address: str) -> int | None:
    with inventory.change("node", "boot") as change:
        claimed = change.claim_token(token, address)
    return claimed[0] if claimed else None


def test_a_token_opens_its_deployment_once_and_from_its_own_address(inventory: Inventory, engine: sa.Engine) -> None:
    number, token = start(inventory, datetime.now(UTC) + timedelta(hours=1))
    assert claim(inventory, token, "10.20.1.2") is None
    assert claim(inventory, "another", "10.20.1.1") is None
    assert claim(inventory, token, "10.20.1.1") == number
    assert claim(inventory, token, "10.20.1.1") is None
    with engine.connect() as connection:
        assert token not in str(connection.execute(sa.text("SELECT * FROM tokens")).all())


def test_a_token_expires_at_its_deadline_in_any_time_zone(inventory: Inventory) -> None:
    west = timezone(timedelta(hours=-11))
    _, token = start(inventory, datetime.now(UTC).astimezone(west) - timedelta(seconds=1))
    assert claim(inventory, token, "10.20.1.1") is None


def test_a_deployment_ends_once(inventory: Inventory, engine: sa.Engine) -> None:
    number, _ = start(inventory, datetime.now(UTC) + timedelta(hours=1))
    for result in ("done", "failed"):
        with inventory.change("tester", "a test") as change:
            change.finish_deployment(number, result, "because")
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT result FROM deployments")).scalar() == "done"


def test_the_disks_of_the_last_finished_deployment_are_known_until_the_node_is_retired(inventory: Inventory) -> None:
    number, _ = start(inventory, datetime.now(UTC) + timedelta(hours=1))
    (node,) = inventory.nodes()
    with inventory.change("tester", "a test") as change:
        change.remember_disks(number, {"system": "S1"})
    assert inventory.deployed_disks(node) == {}, "it is not finished"
    with inventory.change("tester", "a test") as change:
        change.finish_deployment(number, "done")
        cut_off = change.start_deployment(node, Intent.DEPLOY, datetime.now(UTC) + timedelta(hours=1))
        change.remember_disks(cut_off.id, {"system": "S2"})
        change.close_deployments(node, "failed", "the power went")
        change.start_deployment(node, Intent.INSPECT, datetime.now(UTC) + timedelta(hours=1))
    assert inventory.deployed_disks(node) == {"system": "S1"}
    with inventory.change("tester", "a test") as change:
        change.forget_disks([node])
    assert inventory.deployed_disks(node) == {}


def test_published_files_have_one_owner_each(inventory: Inventory) -> None:
    with inventory.change("tester", "a test") as change:
        change.remember_published({"a": 0, "b": 1, "c": 2}, [])
    with inventory.change("tester", "a test") as change:
        change.remember_published({"b": 2}, ["c"])
    assert inventory.published_files() == {"a": 0, "b": 2}
    assert inventory.published_files([2]) == {"b": 2}


def test_a_reader_sees_one_moment(inventory: Inventory, url: str) -> None:
    """Otherwise it could see a node whose NICs were not there yet when it asked for them."""
    with inventory._reading() as connection:
        before = connection.execute(sa.select(nics)).all()
        other = Inventory.open(url, Path("unused"))
        with other.change("tester", "a test") as change:
            change.add([node_of(1)])
        other.close()
        assert connection.execute(sa.select(nics)).all() == before
    assert len(inventory.nodes()) == 1


def test_migrations_make_exactly_the_tables_we_use(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_opening_knows_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [HEAD]


@pytest.fixture
def older(url: str) -> str:
    """Made with the schema before milestones had an index, by the migrations of that time."""
    from alembic import command

    plain = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg") if "postgresql" in url else url)
    with plain.begin() as connection:
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0004")
        row = {"node": "gpu01", "severity": "info", "actor": "", "cause": "", "message": "", "data": {}}
        long_ago = datetime.now(UTC) - timedelta(days=400)
        connection.execute(
            sa.insert(events), [{**row, "kind": kind, "at": long_ago} for kind in ("deploy", "http", "failed", "http")]
        )
    plain.dispose()
    return url


def test_the_history_of_an_older_headnode_is_found_and_can_be_forgotten(older: str) -> None:
    inventory = Inventory.open(older, Path("unused"))
    assert [event.kind for event in inventory.history.milestones("gpu01", limit=9)] == ["deploy", "failed"]
    assert inventory.history.forget(datetime.now(UTC), most=100) == 1
    assert inventory.history.forgotten() > 0
    assert [event.kind for event in inventory.events()] == ["deploy", "failed", "http"]
    inventory.close()


def test_a_backup_of_an_older_headnode_can_be_restored_over_a_newer_one(older: str, tmp_path: Path) -> None:
    """What the newer one has made besides its tables stays where it is, and must not be in the way."""
    database = tmp_path / "inventory.db"
    server = older if "postgresql" in older else None
    dumps.dump(server, database, tmp_path / "copy")
    Inventory.open(older, Path("unused")).close()
    dumps.load(server, database, tmp_path / "copy")
    inventory = Inventory.open(older, Path("unused"))
    assert len(inventory.events()) == 4
    assert inventory.history.forget(datetime.now(UTC), most=100) == 1
    inventory.close()


def test_without_a_word_about_it_nothing_can_be_forgotten(inventory: Inventory, engine: sa.Engine) -> None:
    """Also not by a database that has lost the counter."""
    with inventory.change("tester", "a test") as change:
        change.record("http", "a file was fetched")
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM counters WHERE name = 'forgotten'"))
    with pytest.raises(sa.exc.DatabaseError, match="append-only"), engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM events"))


def test_a_database_of_a_newer_headnode_is_refused(engine: sa.Engine, url: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(HeadnodeError, match="newer Headnode"):
        Inventory.open(url, Path("unused"))


def test_parts_go_with_their_node(inventory: Inventory, engine: sa.Engine) -> None:
    with inventory.change("tester", "a test") as change:
        change.add([replace(node_of(1), groups=("a100",))])
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM nodes"))
        assert connection.execute(sa.select(nics)).all() == []
        assert connection.execute(sa.select(group_members)).all() == []


def open_and_count(url: str, ready: "multiprocessing.synchronize.Barrier") -> None:
    ready.wait()
    made = Inventory.open(url, Path("unused"))
    assert made.count() == 0
    made.close()


def test_several_processes_can_open_an_empty_database_at_once(url: str) -> None:
    processes = multiprocessing.get_context("forkserver")
    barrier = processes.Barrier(4)
    started = [processes.Process(target=open_and_count, args=(url, barrier)) for _ in range(4)]
    for one in started:
        one.start()
    for one in started:
        one.join(60)
    assert [one.exitcode for one in started] == [0, 0, 0, 0]


def race(url: str, me: int, barrier: threading.Barrier, won: list[tuple[int, str]], leaked: list[Exception]) -> None:
    inventory = Inventory.open(url, Path("unused"))
    try:
        for number in range(1, 16):
            barrier.wait(60)
            nic = Nic(mac(me * 99 + number), address=f"10.20.1.{number}")
            mine = Node(f"w{me}-{number}", "gpu", (nic,))
            try:
                with inventory.change(f"writer {me}", "a race") as change:
                    change.add([mine])
                won.append((me, f"10.20.1.{number}"))
            except Taken:
                pass
    except Exception as error:  # noqa: BLE001 - whatever it is, the test has to see it
        leaked.append(error)
        barrier.abort()
    finally:
        inventory.close()


def test_two_writers_race_for_the_same_addresses_and_each_goes_to_one(inventory: Inventory, url: str) -> None:
    barrier = threading.Barrier(2)
    won: list[tuple[int, str]] = []
    leaked: list[Exception] = []
    writers = [threading.Thread(target=race, args=(url, me, barrier, won, leaked)) for me in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert leaked == []
    wanted = sorted(f"10.20.1.{number}" for number in range(1, 16))
    assert sorted(address for _, address in won) == wanted
    assert sorted(str(node.address) for node in inventory.nodes()) == wanted
