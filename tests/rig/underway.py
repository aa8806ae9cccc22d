"""What must hold of tables while records come: each row is what the records that it names give.

Shares no code with livejoin.
"""

from collections.abc import Collection, Iterable, Mapping

from rig import oracle
from rig.oracle import FIELDS, Difference, Rejected, Row, Sent, Version

Found = Mapping[str, Mapping[str, Row]]


def unlike_their_records(found: Found, sent: Mapping[str, Iterable[Sent]]) -> list[Difference]:
    """Rows whose cells are not those of the record that they name.

    For tables that are read while records come: a record that is not known yet is left alone.
    """
    wrong = []
    for source in FIELDS:
        there = found[f"{source}_ui"]
        for record in sent[source]:
            row_id = oracle.row_name((record.partition, record.offset))
            row = there.get(row_id)
            if row is None or record.value is None:
                continue
            try:
                its: Row | None = {**oracle.parsed(source, record.value), "_ts": record.timestamp}
            except Rejected:
                its = None  # such a row must not be
            if its is None or oracle.known(row, its) != its:
                wrong.append(Difference(f"{source}_ui", row_id, row, its))
    return wrong


def unlike_their_pairs(found: Found, sent: Mapping[str, Iterable[Sent]], join: str) -> list[str]:
    """Rows of `final_ui` that are not the join of the records that they name.

    The account of a left join is the newest that is shown, or a newer one: `final_ui` may know an
    account before its own table does. Rows of records that are not known are left alone.
    """
    users, accounts = (oracle.rows_of(source, sent[source]) for source in FIELDS)
    shown = found["accounts_ui"].keys()
    of_user: dict[str, list[Version]] = {}
    for at, (row, ts) in accounts.items():
        of_user.setdefault(row["userId"], []).append((ts, at, row))
    by_id = {oracle.row_name(at): (ts, at, row) for at, (row, ts) in accounts.items()}
    owners = {oracle.row_name(at): of for at, of in users.items()}
    wrong, unknown = [], set(without_records(found, sent))
    for row_id, row in found["final_ui"].items():
        user_id, _, account_id = row_id.partition("+")
        if ("final_ui", row_id) in unknown:
            continue
        if user_id not in owners or (account_id and account_id not in by_id):
            wrong.append(f"final_ui {row_id} is of a record that is no row")
            continue
        user, user_ts = owners[user_id]
        may = [by_id[account_id]] if account_id else [oracle.no_account(user_ts)]
        if join == "left" and user["userId"] is not None:
            may = _may_show(of_user.get(user["userId"], []), shown, user_ts)
        rows = [oracle.joined(user, user_ts, one) for one in may]
        if oracle.known(row, rows[0]) not in rows:
            wrong.append(f"final_ui {row_id} is {row}, not one of {rows[:3]}")
    return wrong


def _may_show(accounts: list[Version], shown: Collection[str], user_ts: int) -> list[Version]:
    """The newest account that is shown and those after it; or none, while none is shown."""
    there = [one[:2] for one in accounts if oracle.row_name(one[1]) in shown]
    if not there:
        return [oracle.no_account(user_ts), *accounts]
    return [one for one in accounts if one[:2] >= max(there)]


def without_records(found: Found, sent: Mapping[str, Iterable[Sent]]) -> list[tuple[str, str]]:
    """Rows that name a record which nobody has sent: table and identity."""
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
