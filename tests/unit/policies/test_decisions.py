"""What each policy that decides answers, and what it says about the tools that it answers for."""

from __future__ import annotations

from typing import Any

import pytest

from cayu_runtime import PolicyResult
from cayu_runtime.policies import Allow, ByEnvironment, ByTool, Deny, DenyTools, OnlyFor, RequireApproval
from tests.unit.policies.asked import ALLOW, ASK, DENY, Part, answer_of, objection, request


def test_allow_allows_what_is_listed_and_denies_the_rest() -> None:
    policy = Allow(("look", "read_*"), reason="Ask the desk.")
    for tool in ("look", "read_", "read_mail"):
        assert answer_of(policy, request(tool)).decision is ALLOW
    for tool in ("looks", "loo", "rea", "Look", "refund", ""):
        assert answer_of(policy, request(tool)) == PolicyResult(DENY, "Ask the desk.")
    assert answer_of(Allow(("*",)), request("anything")).decision is ALLOW


def test_deny_denies_everything() -> None:
    assert answer_of(Deny("Never."), request("anything")) == PolicyResult(DENY, "Never.")


def test_approval_is_asked_for_listed_tools_with_its_limit_and_four_eyes() -> None:
    policy = RequireApproval(("refund", "pay_*"), expires_in=60, four_eyes=False, reason="Money.")
    for tool in ("refund", "pay_all"):
        assert answer_of(policy, request(tool)) == PolicyResult(ASK, "Money.", 60, False)
    assert answer_of(policy, request("look")).decision is ALLOW
    assert answer_of(RequireApproval(("refund",))).four_eyes is None


def test_deny_tools_objects_to_listed_tools_alone() -> None:
    guard = DenyTools(("refund", "pay_*"), "Not here.")
    assert [objection(guard, request(tool)) for tool in ("refund", "pay_all", "look")] == [
        "Not here.",
        "Not here.",
        None,
    ]


@pytest.mark.parametrize(
    "fields, free",
    [
        ({"agents": ("clerk", "boss")}, True),
        ({"agents": ("boss",)}, False),
        ({"versions": ("2",)}, True),
        ({"versions": ("1", "3")}, False),
        ({"environments": ("staging",)}, True),
        ({"environments": ("production",)}, False),
        ({"agents": ("clerk",), "versions": ("2",), "environments": ("staging",)}, True),
        ({"agents": ("clerk",), "versions": ("2",), "environments": ("production",)}, False),
        ({"agents": ("boss",), "versions": ("2",), "environments": ("staging",)}, False),
    ],
)
def test_only_for_wants_all_that_is_listed(fields: dict[str, Any], free: bool) -> None:
    guard = OnlyFor(("refund",), reason="Not here.", **fields)
    asked = {"agent": "clerk", "agent_version": "2", "environment": "staging"}
    assert objection(guard, request(**asked)) == (None if free else "Not here.")
    assert objection(guard, request("look", **asked)) is None


@pytest.mark.parametrize("rule", [{"environments": ("staging",)}, {"versions": ("1",)}])
def test_an_agent_that_says_nothing_is_in_no_list(rule: dict[str, Any]) -> None:
    assert objection(OnlyFor(("refund",), **rule), request(agent_version="", environment=""))


def test_the_environment_chooses_the_policy() -> None:
    policy = ByEnvironment({"production": RequireApproval(("refund",)), "staging": Allow(("refund",))})
    assert answer_of(policy, request(environment="production")).decision is ASK
    assert answer_of(policy, request(environment="staging")).decision is ALLOW
    for unknown in ("", "Production", "test"):
        assert answer_of(policy, request(environment=unknown)).decision is DENY


def test_the_first_rule_that_fits_the_tool_answers() -> None:
    policy = ByTool({"pay_bill": Deny("no"), "pay_*": RequireApproval(("*",)), "look": Allow(("look",))})
    found = {tool: answer_of(policy, request(tool)).decision for tool in ("pay_bill", "pay_rent", "look", "pay", "x")}
    assert found == {"pay_bill": DENY, "pay_rent": ASK, "look": ALLOW, "pay": DENY, "x": DENY}
    assert answer_of(ByTool({"look": Deny()}, otherwise=Allow(("*",))), request("x")).decision is ALLOW


def test_a_rule_that_was_not_chosen_is_not_asked() -> None:
    chosen, other = Part(PolicyResult(ALLOW)), Part(PolicyResult(ALLOW))
    answer_of(ByTool({"refund": chosen, "*": other}))
    answer_of(ByEnvironment({"a": chosen, "b": other}), request(environment="a"))
    assert (len(chosen.seen), len(other.seen)) == (2, 0)


def test_rules_given_as_a_mapping_do_not_change_with_it() -> None:
    rules = {"refund": Deny()}
    tool, environment = ByTool(rules), ByEnvironment(rules)
    before = (tool.identity.digest, environment.identity.digest)
    rules["refund"] = rules["*"] = Allow(("*",))  # type: ignore[assignment]
    assert (tool.identity.digest, environment.identity.digest) == before
    assert answer_of(tool).decision is DENY
    tools = ["refund"]
    listed = Allow(tools)  # type: ignore[arg-type]
    tools.append("pay")
    assert answer_of(listed, request("pay")).decision is DENY
