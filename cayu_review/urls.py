from __future__ import annotations

from django.urls import path

from . import schemes  # noqa: F401  registers them
from .views import (
    account,
    api_docs,
    approval,
    attachment,
    bulk,
    effect,
    question,
    queue,
    session,
    session_deed,
    session_list,
)

urlpatterns = [
    path("", queue.to_approve, name="queue"),
    path("reconcile/", queue.to_reconcile, name="reconcile"),
    path("approvals/<uuid:approval_id>/", approval.approval, name="approval"),
    path("approvals/<uuid:approval_id>/confirm/", approval.confirm, name="confirm"),
    path("approvals/<uuid:approval_id>/decide/", approval.decide, name="decide"),
    path("approvals/<uuid:approval_id>/revoke/", approval.revoke, name="revoke"),
    path("approvals/together/", bulk.together, name="together"),
    path("attachments/<uuid:attachment_id>/", attachment.attachment, name="attachment"),
    path("effects/<uuid:effect_id>/", effect.effect, name="effect"),
    path("effects/<uuid:effect_id>/look-up/", effect.look_up, name="look_up"),
    path("effects/<uuid:effect_id>/receipt/", effect.receipt, name="receipt"),
    path("effects/<uuid:effect_id>/verify/", effect.verify, name="verify"),
    path("effects/<uuid:effect_id>/abandon/", effect.abandon, name="abandon"),
    path("questions/", question.to_answer, name="questions"),
    path("questions/<uuid:question_id>/", question.question, name="question"),
    path("questions/<uuid:question_id>/answer/", question.answer, name="answer"),
    path("sessions/", session_list.session_list, name="sessions"),
    path("sessions/<str:session_id>/", session.session, name="session"),
    path("sessions/<str:session_id>/stop/", session_deed.stop, name="stop"),
    path("sessions/<str:session_id>/resume/", session_deed.resume, name="resume"),
    path("sessions/<str:session_id>/continue/", session_deed.go_on, name="continue"),
    path("start/", session.start, name="start"),
    path("api/docs/", api_docs.api_docs, name="api-docs"),
    path("accounts/login/", account.SignIn.as_view(), name="login"),
    path("accounts/logout/", account.SignOut.as_view(), name="logout"),
    path("accounts/tenant/", account.tenant, name="tenant"),
]
