"""`make screenshots` knows every page: a new address without a picture, or without a reason for none, is found here."""

from django.urls import get_resolver, path

from tests.screenshots import coverage, shots


def test_every_address_has_a_picture_or_a_reason() -> None:
    assert coverage.uncovered() == []


def test_a_new_address_is_found() -> None:
    patterns = get_resolver().url_patterns
    patterns.append(path("brand-new/", lambda request: None, name="brand-new"))  # type: ignore[arg-type,return-value]
    try:
        assert coverage.uncovered() == ["brand-new"]
    finally:
        patterns.pop()


def test_no_reason_and_no_picture_outlives_its_address() -> None:
    known = set(coverage.names())
    assert {shot.url for shot in shots.SHOTS} <= known
    assert {name for name in shots.NO_PICTURE if not name.endswith("*")} <= known


def test_each_picture_has_a_name_of_its_own() -> None:
    names = [shot.name for shot in shots.SHOTS]
    assert len(names) == len(set(names))
