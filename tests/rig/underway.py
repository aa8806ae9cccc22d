"""Checks of tables under traffic: each row has the cells of the records it names.

Shares no code with livejoin.
"""

from collections.abc import Collection, Iterable, Mapping

from rig import oracle
from rig.oracle import FIELDS, Difference, Rejected, Row, Sent, Version

Found = Mapping[str, Mapping[str, Row]]


def rows_unlike_records(found: Found, sent: Mapping[str, Iterable[Sent]]) -> list[Difference]:
    """Return rows with other cells than the record they name.

    For tables read under traffic: rows of records not known yet are skipped.
    """
    wrong = []
    for source in FIELDS:
        found_rows = found[f"{source}_ui"]
        for record in sent[source]:
            row_id = oracle.row_name((record.partition, record.offset))
            row = found_rows.get(row_id)
            if row is None or record.value is None:
                continue
            try:
                expected_row: Row | None = {
                    **oracle.parse_cached(source, record.value),
                    "_ts": record.timestamp,
                }
            except Rejected:
                expected_row = None  # there must be no such row
            if expected_row is None or oracle.comparable(row, expected_row) != expected_row:
                wrong.append(Difference(f"{source}_ui", row_id, row, expected_row))
    return wrong


def rows_unlike_pairs(found: Found, sent: Mapping[str, Iterable[Sent]], join: str) -> list[str]:
    """Return rows of `final_ui` that are not the join of the records they name.

    In a left join the account is the newest one shown or newer: `final_ui` may have an account
    before its own table does. Rows of unknown records are skipped.
    """
    users, accounts = (oracle.rows_of(source, sent[source]) for source in FIELDS)
    shown_ids = found["accounts_ui"].keys()
    of_user: dict[str, list[Version]] = {}
    for at, (row, ts) in accounts.items():
        of_user.setdefault(row["userId"], []).append((ts, at, row))
    by_id = {oracle.row_name(at): (ts, at, row) for at, (row, ts) in accounts.items()}
    owners = {oracle.row_name(at): of for at, of in users.items()}
    wrong, unknown = [], set(unknown_rows(found, sent))
    for row_id, row in found["final_ui"].items():
        user_id, _, account_id = row_id.partition("+")
        if ("final_ui", row_id) in unknown:
            continue
        if user_id not in owners or (account_id and account_id not in by_id):
            wrong.append(f"final_ui {row_id} is of a record that is no row")
            continue
        user, user_ts = owners[user_id]
        allowed = [by_id[account_id]] if account_id else [oracle.no_account(user_ts)]
        if join == "left" and user["userId"] is not None:
            allowed = _possible_accounts(of_user.get(user["userId"], []), shown_ids, user_ts)
        rows = [oracle.joined(user, user_ts, one) for one in allowed]
        if oracle.comparable(row, rows[0]) not in rows:
            wrong.append(f"final_ui {row_id} is {row}, not one of {rows[:3]}")
    return wrong


def _possible_accounts(
    accounts: list[Version], shown_ids: Collection[str], user_ts: int
) -> list[Version]:
    """Return the newest shown account and all newer ones, or all and none if none is shown."""
    found_rows = [account[:2] for account in accounts if oracle.row_name(account[1]) in shown_ids]
    if not found_rows:
        return [oracle.no_account(user_ts), *accounts]
    return [account for account in accounts if account[:2] >= max(found_rows)]


def unknown_rows(found: Found, sent: Mapping[str, Iterable[Sent]]) -> list[tuple[str, str]]:
    """Return rows whose record was never sent: table and id."""
    users, accounts = (
        {oracle.row_name((one.partition, one.offset)) for one in sent[source]} for source in FIELDS
    )
    wrong = [("users_ui", row_id) for row_id in found["users_ui"].keys() - users]
    wrong += [("accounts_ui", row_id) for row_id in found["accounts_ui"].keys() - accounts]
    for row_id in found["final_ui"]:
        user, _, account = row_id.partition("+")
        if user not in users or (account and account not in accounts):
            wrong.append(("final_ui", row_id))
    return wrong
