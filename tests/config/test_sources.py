"""Declared sources: what they become, and what is wrong with them, with its line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from livejoin.config import settings
from livejoin.core import spec
from livejoin.core.spec import Column
from livejoin.errors import SettingsError

Write = Callable[[str], Path]
SHOP = """\
sources:
  orders:
    topic: shop.orders
    key: customerId
    fields:
      orderId: string
      customerId: string
      total: decimal(12,2)
      city: {path: $.address.city, type: string}
      first: {path: "$.items[0]", type: string}
      at: timestamp
  customers: {topic: crm.customers, key: id, fields: {id: string, name: string}}
  payments: {topic: bank.payments, key: id, fields: {id: string, paid: decimal(12,2), ok: boolean}}
join: left
"""
TWO = """\
sources:
  a: {key: k, fields: {k: string, x: string}}
  b: {key: k, fields: {k: string, x: string}}
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        file = tmp_path / "livejoin.yaml"
        file.write_text(text)
        return file

    return write


def test_sources_become_a_spec_and_a_first_choice(write: Write) -> None:
    chosen = settings.load(write(SHOP))
    orders, customers, payments = chosen.join_spec.sources
    assert orders.fields == (
        Column("orderId", "string"),
        Column("customerId", "string"),
        Column("total", "decimal(12,2)"),
        Column("city", "string", "$.address.city"),
        Column("first", "string", "$.items[0]"),
        Column("at", "timestamp"),
    )
    assert (orders.key, customers.key, payments.key) == ("customerId", "id", "id")
    assert payments.fields[1:] == (Column("paid", "decimal(12,2)"), Column("ok", "boolean"))
    assert str(chosen.initial_choice) == "shop.orders left crm.customers, bank.payments"
    assert chosen.start_positions.keys() == {"orders", "customers", "payments"}
    assert chosen.rules.spec == chosen.join_spec


def test_a_topic_is_called_like_its_source_unless_it_is_given(write: Write) -> None:
    assert settings.load(write(TWO)).initial_choice.topics == {"a": "a", "b": "b"}


def test_without_sources_users_and_accounts_are_joined() -> None:
    assert settings.load().join_spec is spec.DEFAULT


def test_a_path_that_is_the_name_is_none(write: Write) -> None:
    text = TWO.replace("x: string", "x: {type: string, path: $.x}", 1)
    assert settings.load(write(text)).join_spec == settings.load(write(TWO)).join_spec


MANY = "sources:\n" + "".join(f"  s{n}: {{key: k, fields: {{k: string}}}}\n" for n in range(9))
CASES = {
    "an unknown type": (
        SHOP.replace("timestamp", "timestmp"),
        "line 11: sources.orders.fields.at: unknown type 'timestmp': did you mean timestamp?",
    ),
    "an unknown setting of a source": (
        SHOP.replace("    topic: shop", "    topik: shop"),
        "line 3: sources.orders.topik: unknown setting 'topik', did you mean topic?",
    ),
    "an unknown setting of a field": (
        SHOP.replace("{path: $.address", "{pat: $.address"),
        "line 9: sources.orders.fields.city.pat: unknown setting 'pat', did you mean path?",
    ),
    "no path": (
        SHOP.replace("$.address.city", "address.city"),
        "line 9: sources.orders.fields.city.path: 'address.city' is not a path such as",
    ),
    "a path into a scalar": (
        SHOP.replace("orderId: string", "orderId: {path: $.address, type: string}"),
        "line 9: sources.orders.fields.city: its path is that of orderId, leads into its value",
    ),
    "a key that is no field": (
        SHOP.replace("key: customerId", "key: customerid"),
        "line 4: sources.orders.key: unknown field 'customerid', did you mean customerId?",
    ),
    "no key": (
        SHOP.replace("    key: customerId\n", ""),
        "line 2: sources.orders.key: missing: it names the field that is joined on",
    ),
    "a key of another type": (
        SHOP.replace("{id: string, name", "{id: int64, name"),
        "sources.customers.key: id is of type int64, but the key of orders is of type string",
    ),
    "a key that cannot be one": (
        SHOP.replace("customerId: string", "customerId: boolean"),
        "sources.orders.key: customerId is of type boolean; a key is of type string or int64",
    ),
    "two sources with one topic": (
        SHOP.replace("bank.payments", "crm.customers"),
        "line 13: sources.payments.topic: crm.customers is read by customers already",
    ),
    "a topic that is none": (
        SHOP.replace("crm.customers", "crm customers"),
        "sources.customers.topic: 'crm customers' is not a topic name",
    ),
    "names that differ by case only": (
        SHOP.replace("orderId: string", "At: string"),
        "line 11: sources.orders.fields.at: differs from At by case only",
    ),
    "sources that differ by case only": (
        SHOP.replace("  payments:", "  Orders:"),
        "line 13: sources.Orders: differs from another source by case only",
    ),
    "a prefixed name that clashes again": (
        SHOP.replace("orderId: string", "name: string").replace(
            "total: dec", "customers_name: dec"
        ),
        "sources.customers.fields.name: final_ui has columns name and customers_name already",
    ),
    "a hidden name": (
        SHOP.replace("orderId: string", "_id: string"),
        "line 6: sources.orders.fields._id: a field's name has 1 to 64 letters",
    ),
    "a source called like a table": (
        SHOP.replace("  customers:", "  final:"),
        "line 12: sources.final: this name is livejoin's own",
    ),
    "a source that is no name": (
        SHOP.replace("  customers:", "  my-customers:"),
        "line 12: sources.my-customers: a source's name has",
    ),
    "a decimal that is too long": (
        SHOP.replace("total: decimal(12,2)", "total: decimal(39,2)"),
        "line 8: sources.orders.fields.total: decimal(39,2): a decimal has 1 to 38 digits",
    ),
    "more digits behind the point than there are": (
        SHOP.replace("total: decimal(12,2)", "total: decimal(2,3)"),
        "line 8: sources.orders.fields.total: decimal(2,3)",
    ),
    "inner with three sources": (
        SHOP.replace("join: left", "join: inner"),
        "line 14: join: inner takes exactly two sources, and there are 3",
    ),
    "one source": ("sources: {a: {key: k, fields: {k: string}}}", "expected 2 to 8 sources"),
    "nine sources": (MANY, "expected 2 to 8 sources"),
    "a list of sources": ("sources: [a, b]", "sources: "),
    "a source that is a text": (
        TWO.replace("{key: k, fields: {k: string, x: string}}", "x", 1),
        "sources.a: expected topic, key and fields",
    ),
    "no fields": (
        TWO.replace("{k: string, x: string}", "{}", 1),
        "sources.a.fields: expected 1 to",
    ),
    "a field that is a list": (
        TWO.replace("x: string", "x: [string]", 1),
        "sources.a.fields.x: expected a type",
    ),
    "a topic in both places": (SHOP + "topics: {users: u}\n", "topics.users: with sources"),
    "the control topic": (
        SHOP.replace("crm.customers", "control"),
        "sources.customers.topic must not be the control topic",
    ),
    "a topic of livejoin's own": (
        SHOP.replace("crm.customers", "livejoin.ledger"),
        "sources.customers.topic is 'livejoin.ledger', one of livejoin's own",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_named(case: str, write: Write) -> None:
    text, expected = CASES[case]
    with pytest.raises(SettingsError) as raised:
        settings.load(write(text))
    assert expected in str(raised.value)


def test_all_problems_are_reported_each_on_its_line(write: Write) -> None:
    text = SHOP.replace("timestamp", "time").replace("key: id", "key: ids")
    with pytest.raises(SettingsError) as raised:
        settings.load(write(text))
    lines = str(raised.value).splitlines()
    assert [line.partition(": ")[0].rpartition(" ")[2] for line in lines] == ["11", "12", "13"]
