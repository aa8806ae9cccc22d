import pytest

from livejoin.core import start_position

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("earliest", "earliest"),
        (" Latest ", "latest"),
        ("1h", "1h"),
        (" 90 S ", "90 S"),
        ("250ms", "250ms"),
        ("999999999w", "999999999w"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        (" 2026-01-31 ", "2026-01-31"),
    ],
)
def test_a_start_is_normalized(given: str, kept: str) -> None:
    assert start_position.normalize_start(given) == kept


@pytest.mark.parametrize(
    "given",
    [
        "",
        "soon",
        "h",
        "1",
        "-1h",
        "1.5h",
        "1y",
        "1h 30m",
        "1000000000s",
        "2026-13-01",
        "12:00",
        "1700000000",
        "٣h",
        "earliest,latest",
    ],
)
def test_an_invalid_start_is_an_error(given: str) -> None:
    with pytest.raises(ValueError, match=f"^expected {start_position.START_EXPECTED}$"):
        start_position.normalize_start(given)


def test_a_start_that_is_not_valid_unicode_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected earliest"):
        start_position.normalize_start("2026-01-31\ud80012:00:00")


@pytest.mark.parametrize("word", ["earliest", "latest"])
def test_earliest_and_latest_are_not_times(word: str) -> None:
    assert start_position.start_time(word, NOW) is None


@pytest.mark.parametrize(
    ("age", "seconds"),
    [
        ("0s", 0),
        ("250ms", 0.25),
        ("90 S", 90),
        ("2m", 120),
        ("1h", 3600),
        ("1D", 86_400),
        ("2w", 1_209_600),
    ],
)
def test_an_age_is_subtracted_from_now(age: str, seconds: float) -> None:
    assert start_position.start_time(age, NOW) == NOW - seconds


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T22:13:20", NOW),  # UTC by default
        ("2023-11-14 23:13:20+01:00", NOW),
        ("2023-11-14", NOW - 80_000),
    ],
)
def test_a_timestamp_is_parsed(text: str, at: float) -> None:
    assert start_position.start_time(text, 5.0) == at


@pytest.mark.parametrize("text", ["999999999w", "1969-12-31", "0001-01-01T00:00:00+23:59"])
def test_times_before_1970_become_0(text: str) -> None:
    assert start_position.start_time(text, NOW) == 0.0
