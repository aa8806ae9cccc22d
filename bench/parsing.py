"""Records parsed per second: flat ones, nested ones, and those that need the strict parser.

    .venv/bin/python bench/parsing.py [records]

One warm JVM, no Kafka: values are in memory, rows are dropped. A number is the best of three runs.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import functions as F

from livejoin.config.sections import SparkSettings
from livejoin.core.spec import DEFAULT, Column, JoinSpec, Source
from livejoin.pipeline import parse
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.runtime import processes

FLAT = (
    Column("customerId", "string"),
    Column("orderId", "string"),
    Column("amount", "double"),
    Column("city", "string"),
    Column("sku", "string"),
)
NESTED = (
    *FLAT[:3],
    Column("city", "string", "$.address.city"),
    Column("sku", "string", "$.items[0].sku"),
)
TYPED = (*NESTED, Column("total", "decimal(12,2)"), Column("at", "timestamp"))
FLAT_RECORD = {"customerId": "c%d", "orderId": "o%d", "amount": 12.25, "city": "Bern", "sku": "a1"}
RECORD = {
    "customerId": "c%d",
    "orderId": "o%d",
    "amount": 12.25,
    "address": {"street": "Main", "city": "Bern"},
    "items": [{"sku": "a1", "count": 2}],
}
TYPED_RECORD = {**RECORD, "total": 12.5, "at": "2024-02-29T10:00:00.5Z"}
ACCOUNT = {"userId": "u%d", "accountType": "checking", "balance": 12.25}


def main(records: int) -> None:
    cases = {
        "default, accounts": (DEFAULT, "accounts", ACCOUNT),
        "flat": (_spec(FLAT), "orders", FLAT_RECORD),
        "nested": (_spec(NESTED), "orders", RECORD),
        "nested, decimal, timestamp": (_spec(TYPED), "orders", TYPED_RECORD),
        "flat, by the strict parser": (_spec(FLAT), "orders", {**FLAT_RECORD, "amount": "12.25"}),
        "nested, by the strict parser": (_spec(NESTED), "orders", {**RECORD, "amount": "12.25"}),
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with (
            processes.file_lock(folder / "lock", "folder") as lock,
            SparkDriver(SparkSettings(), lock=lock, log=folder / "spark.log") as driver,
        ):
            for name, (joined, source, record) in cases.items():
                best = min(_seconds(driver, joined, source, record, records) for _ in range(3))
                print(f"{name:32} {records / best:>12,.0f} records/s")


def _spec(fields: tuple[Column, ...]) -> JoinSpec:
    customers = (Column("id", "string"), Column("name", "string"))
    return JoinSpec((Source("orders", fields, "customerId"), Source("customers", customers, "id")))


def _seconds(
    driver: SparkDriver, joined: JoinSpec, source: str, record: object, records: int
) -> float:
    text = json.dumps(record).replace("%d", "%1$d")
    values = driver.spark().range(0, records, 1, 2)
    values = values.select(
        F.lit(source).alias("source"), F.format_string(text, "id").cast("binary").alias("value")
    ).cache()
    values.count()
    began = time.monotonic()
    parse.parse_records(values, joined).write.format("noop").mode("overwrite").save()
    took = time.monotonic() - began
    values.unpersist()
    return took


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)
