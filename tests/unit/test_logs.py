"""One JSON object per line, with the ids bound around it and without contents."""

import json
import logging
from collections.abc import Iterator
from io import StringIO

import pytest
import structlog

from cayu_project.logs import LEFT_OUT, logging_config


@pytest.fixture
def written() -> Iterator[StringIO]:
    """What the configured formatter writes for a logger of its own."""
    config = logging_config()
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=config["formatters"]["json"]["foreign_pre_chain"],
        processors=config["formatters"]["json"]["processors"],
    )
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.getLogger("test_logs")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    structlog.contextvars.clear_contextvars()


def test_the_ids_stand_on_our_lines_and_on_those_of_libraries(written: StringIO) -> None:
    structlog.contextvars.bind_contextvars(tenant="acme", session="s-1", call="c-1", request_id="r-1")
    structlog.get_logger("test_logs").info("tool.call.started", tool="refund")
    logging.getLogger("test_logs").warning("a library says %s", "this")
    ours, theirs = map(json.loads, written.getvalue().splitlines())
    assert ours["event"] == "tool.call.started"
    assert theirs["event"] == "a library says this"
    for line in (ours, theirs):
        assert (line["tenant"], line["session"], line["call"], line["request_id"]) == ("acme", "s-1", "c-1", "r-1")
        assert line["logger"] == "test_logs"
        assert line["timestamp"].endswith("Z")


def test_contents_are_left_out_by_name(written: StringIO) -> None:
    structlog.get_logger("test_logs").info("x", arguments={"iban": "canary"}, token="canary", result="canary", order=7)
    assert "canary" not in written.getvalue()
    line = json.loads(written.getvalue())
    assert line["arguments"] == line["token"] == line["result"] == LEFT_OUT
    assert line["order"] == 7


def test_a_traceback_shows_no_local_values(written: StringIO) -> None:
    iban = "canary-value"
    try:
        raise RuntimeError(len(iban))
    except RuntimeError:
        structlog.get_logger("test_logs").exception("failed")
    line = json.loads(written.getvalue())
    assert "RuntimeError: 12" in line["exception"]
    assert "canary-value" not in line["exception"]


def test_the_way_back_from_an_identity_provider_is_logged_without_its_code(written: StringIO) -> None:
    for request in ("GET /accounts/oidc/callback/?code=canary&state=s", "GET /sessions/?state=open"):
        structlog.get_logger("test_logs").info("request_started", request=request)
    lines = [json.loads(line)["request"] for line in written.getvalue().splitlines()]
    assert lines == ["GET /accounts/oidc/callback/", "GET /sessions/?state=open"]
