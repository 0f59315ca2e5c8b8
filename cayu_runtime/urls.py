"""The API, for people and agent clients, below the prefix that the project gives it."""

from __future__ import annotations

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from .api import approval, call, effect, event, message, proposal, question, recovery, session
from .http.view import NoSuchRoute


class SessionId(StringConverter):
    regex = r"(?!\.{1,2}/)[A-Za-z0-9._-]{1,80}"


class ActionId(StringConverter):
    regex = "[A-Za-z0-9][A-Za-z0-9._:-]{0,199}"


class Anything(StringConverter):
    regex = r"[\s\S]*"


register_converter(Anything, "anything")
register_converter(SessionId, "session_id")
register_converter(ActionId, "action_id")

urlpatterns = [
    path("sessions/", session.SessionList.as_view(), name="api-sessions"),
    path("sessions/<session_id:session_id>/", session.SessionDetail.as_view(), name="api-session"),
    path("sessions/<session_id:session_id>/interrupt/", session.SessionInterrupt.as_view(), name="api-interrupt"),
    path("sessions/<session_id:session_id>/resume/", session.SessionResume.as_view(), name="api-resume"),
    path("sessions/<session_id:session_id>/abandon/", session.SessionAbandon.as_view(), name="api-abandon"),
    path("sessions/<session_id:session_id>/recovery-plan/", recovery.RecoveryPlan.as_view(), name="api-recovery-plan"),
    path("sessions/<session_id:session_id>/recover/", recovery.SessionRecover.as_view(), name="api-recover"),
    path("sessions/<session_id:session_id>/events/", event.EventList.as_view(), name="api-events"),
    path("sessions/<session_id:session_id>/messages/", message.MessageList.as_view(), name="api-messages"),
    path("pending-actions/", approval.PendingActionList.as_view(), name="api-pending-actions"),
    path("approvals/<uuid:approval_id>/decide/", approval.ApprovalDecide.as_view(), name="api-decide"),
    path("approvals/<uuid:approval_id>/revoke/", approval.ApprovalRevoke.as_view(), name="api-revoke"),
    path("questions/<uuid:question_id>/answer/", question.QuestionAnswer.as_view(), name="api-answer"),
    path("calls/<uuid:call_id>/", call.CallDetail.as_view(), name="api-call"),
    path("calls/<uuid:call_id>/effect/", effect.EffectDetail.as_view(), name="api-effect"),
    path("calls/<uuid:call_id>/effect/reconcile/", effect.EffectReconcile.as_view(), name="api-reconcile"),
    path("proposals/", proposal.ProposalList.as_view(), name="api-proposals"),
    path("proposals/<action_id:action_id>/", proposal.ProposalDetail.as_view(), name="api-proposal"),
    path("<anything:rest>", NoSuchRoute.as_view(), name="api-nowhere"),
]
