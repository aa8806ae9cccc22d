"""Columns and struct fields that the streaming query and the history job share.

A checkpoint's state is stored under these names and types. Renaming a column, or changing the order
or type of a field, changes the query: raise `join.VERSION` with it.
"""

# Columns of the stream before the aggregation, and its grouping key.
GROUP = "group"  # the join key as a JSON member, or a name per source and partition without a key
EVENT = "e"  # the record as an event; in the state: the last event of the group
BOOTSTRAP_ROWS = "kept"  # rows that a record of the bootstrap topic adds to the state

# Further columns of the state.
USERS = "users"  # all users rows of the group
ACCOUNTS = "others"  # left join: the latest accounts row; other joins: all of them

# Fields of an event. A row in the state has all of them but the first.
KEY_PREFIX = "into"  # of the event's own changelog record: `users_ui/`, `rejects_ui/users/`, …
TS = "ts"
PARTITION = "partition"
OFFSET = "offset"
TEXT = "text"  # JSON members that follow the key's

VERSION_FIELDS = (TS, PARTITION, OFFSET)  # in the order in which versions are compared
ROW_FIELDS = (*VERSION_FIELDS, TEXT)
ROW_TYPE = f"struct<{TS}:bigint,{PARTITION}:int,{OFFSET}:bigint,{TEXT}:string>"

# Fields of the bootstrap rows, and of the records that are written.
BOOTSTRAP_USER, BOOTSTRAP_ACCOUNT = "user", "account"
BOOTSTRAP_TYPE = f"struct<{BOOTSTRAP_USER}:{ROW_TYPE},{BOOTSTRAP_ACCOUNT}:{ROW_TYPE}>"
RECORDS_TYPE = "array<struct<key:string,value:string>>"
