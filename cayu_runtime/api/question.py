from __future__ import annotations

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..core.states import QUESTION
from ..errors import NotFound
from ..http.body import Strict, Text
from ..http.documented import Hex, documented
from ..http.view import ApiView
from ..models import Question
from ..selectors.question import find_question
from ..services.question import MAX_ANSWER, answer_question


class QuestionShown(serializers.ModelSerializer[Question]):
    """What an agent asked, and what a person answered. `replay`: this answer had been recorded before."""

    session_id = serializers.CharField(source="session.session_id")
    state = serializers.ChoiceField(choices=QUESTION.names)
    digest = Hex()
    choices = serializers.JSONField(allow_null=True)
    answer = serializers.JSONField(allow_null=True)
    replay = serializers.SerializerMethodField()

    class Meta:
        model = Question
        fields = (
            "id", "session_id", "call", "text", "choices", "digest", "state", "answer", "answered_by_name",
            "created_at", "expires_at", "closed_at", "replay",
        )  # fmt: skip
        read_only_fields = fields

    def get_replay(self, question: Question) -> bool:
        return bool(self.context["replay"])


class AnswerQuestion(Strict):
    answer = Text(max_length=MAX_ANSWER, help_text="Your words; where the question has choices, one of them.")
    digest = Text(max_length=64, min_length=64, help_text="The question's digest, 64 hexadecimal digits.")


class QuestionAnswer(ApiView):
    @documented(
        "answer_question", "Answer exactly the question that was seen",
        {200: QuestionShown},
        "not_found", "already_decided", "digest_mismatch", "question_expired", "conflict", "lost_race",
        takes=AnswerQuestion,
    )  # fmt: skip
    def post(self, request: Request, question_id: UUID) -> Response:
        found = find_question(self.caller.tenant, question_id)
        if found is None:
            raise NotFound("There is no such question.")
        body = self.body(AnswerQuestion)
        answered = answer_question(self.caller.tenant, self.caller.actor, question_id, **body)
        answered.question.session = found.session
        return Response(QuestionShown(answered.question, context={"replay": answered.replay}).data)
