"""One schedule: people, workers, a sweep and what breaks, in an order that its seed and number decide."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from django_q.models import OrmQ

from cayu_runtime.core import clock, engine, points
from cayu_runtime.models import Approval, EffectRecord, Question, Session
from cayu_runtime.services.tenant import create_tenant
from cayu_runtime.worker.beats import worker_name
from cayu_runtime.worker.sweep import Sweep
from tests.proof.agents import declare
from tests.proof.crew import BEGINNING, IN_PROCESS, LOCKED, Crew, Wrong
from tests.proof.faults import DATABASE_ERRORS, IN_CHILDREN, OTHERS, RESTART
from tests.proof.hands import Killed
from tests.proof.nursery import Ended
from tests.proof.oracle import INWARD, Oracle
from tests.proof.people import BY_CALL, Deed, People
from tests.proof.place import Place

SIZE = IN_PROCESS + len(IN_CHILDREN)
RESTART_EVERY = 18
MOST_SESSIONS = 10
SWEEP_SECONDS = 1.0
COMMIT_OF_DECIDE = "core.decisions.decide before commit"
Bell = tuple[UUID, OrmQ]


def _taken(bell: Bell) -> UUID:
    """Take a wake-up out of the queue, as q2 does before the task is run."""
    bell[1].delete()
    return bell[0]


class Schedule(Crew):
    def __init__(self, place: Place, seed: int, number: int) -> None:
        super().__init__(place, f"{seed}/{number}")
        self.number = number
        if number % RESTART_EVERY == RESTART_EVERY // 2:
            self.others[number // RESTART_EVERY % 2] = RESTART
        self.ended: Counter[str] = Counter()
        self._swept = 0.0
        self._stopped: list[Ended] = []
        self._lives_of: dict[int, int] = {}
        self._delayed: list[tuple[float, UUID]] = []

    # --- the whole of it ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises Wrong, or Stuck, at the first thing that is not as it must be."""
        self.place.empty()
        self._shifts.enter_context(clock.standing(BEGINNING))
        declare(self.scene)
        tenant = create_tenant(f"proof-{self.number}", "Proof Ltd")
        self.people = People(tenant, self.scene, self.chance, f"a{self.number}")
        self.oracle = Oracle(tenant.id, self.place.downstream)
        points.listener = self.injector
        self.assemble()
        try:
            while self.left_in_process > 0 or self.others:
                self._step()
                self._look()
            self._settle()
        finally:
            points.listener = None
            self._shifts.close()
            for hand in (*self.workers, *self.webs, self.sweeper):
                hand.leave()

    def _look(self) -> None:
        """The oracle looks at every row; and who was hit is looked at until it is true again."""
        faults = self.oracle.look()
        if faults:
            raise Wrong("; ".join(faults[:5]))
        now = clock.now()
        for injection in self.injections:
            if injection.after is None and injection.session and self.oracle.at_rest(injection.session, now):
                injection.after = self.time - injection.at

    # --- one step ----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self._tick(self.chance.uniform(0.02, 0.15))
        if self.time - self._swept > SWEEP_SECONDS:
            self._sweep()
            return
        dice, bells = self.chance.random(), self._bells()
        if self._held and dice < 0.12:
            self._go_on(self.chance.choice(self._held))
        elif self._stopped and dice < 0.24:
            self._continue_child(self.chance.choice(self._stopped))
        elif self.people.started < 3 or (dice < 0.28 and self.people.started < MOST_SESSIONS):
            self._person(self.people.start())
        elif (dice < 0.36 and self.others and self._break_other(bells)) or (
            dice < 0.48 and self.left_in_process > 0 and self._break_at_rest(bells)
        ):
            return
        elif bells and dice < 0.85:
            self._deliver(self.chance.choice(bells))
        else:
            self._somebody()

    def _somebody(self) -> None:
        deeds = self.people.deeds()
        self._person(self.chance.choice(deeds) if deeds else self.people.start())

    def _bells(self) -> list[Bell]:
        back = [one for one in self._delayed if one[0] <= self.time]
        for one in back:
            self._delayed.remove(one)
            self._run_worker(one[1])
        return self._rung()

    @staticmethod
    def _rung() -> list[Bell]:
        """Wake-ups in the queue, in the order of their sessions."""
        rung = [(UUID(bell.task["args"][0]), bell) for bell in OrmQ.objects.order_by("id")[:50]]
        return sorted(rung, key=lambda one: one[0])

    def _sweep(self) -> None:
        self._swept = self.time
        if self.sweeper in self._held:
            self._go_on(self.sweeper)
        if self.sweeper.busy:
            return
        self._do(self.sweeper, "", Sweep().once)

    def _deliver(self, bell: Bell) -> None:
        session = _taken(bell)
        self._run_worker(session)

    def _run_worker(self, session: UUID) -> None:
        free = [hand for hand in self.workers if not hand.busy]
        if free:
            hand = free[0]
            owner = worker_name(hand.life)
            self._do(hand, self._name(session), lambda: engine.run_session(session, owner))

    def _name(self, session: UUID) -> str:
        return str(Session.objects.values_list("session_id", flat=True).get(pk=session))

    def _person(self, deed: Deed, *, again: bool = True) -> None:
        free = [hand for hand in self.webs if not hand.busy]
        if not free:
            return
        outcome = self._do(free[0], deed.session, deed.work, deed.name)
        if deed.decides:
            self.oracle.asked(deed.decides, done=outcome is not None and outcome[0] == "done")
        unanswered = outcome is not None and isinstance(outcome[1], (Killed, *DATABASE_ERRORS))
        if unanswered and again and self.chance.random() < 0.7:
            self._say(f"{deed.name} once more")
            self._person(deed, again=False)

    # --- what breaks besides the points ------------------------------------------------------------------------------

    def _break_at_rest(self, bells: list[Bell]) -> bool:
        kind = self.chance.choice(OTHERS)
        if kind.startswith("wake-up"):
            return bool(bells) and self._break_bell(kind, self.chance.choice(bells))
        if kind == "clock jump":
            seconds = self.chance.choice((-30.0, -3.0, 1.2, 2.5, 70.0, 700.0))
            self._note(kind, f"{seconds:+} s", "")
            self._shift(seconds)
            return True
        if kind == "rival decision":
            return self._rivals()
        if kind == "late receipt":
            return self._late()
        return self._expire()

    def _break_bell(self, kind: str, bell: Bell) -> bool:
        session = _taken(bell)
        self._note(kind, "", self._name(session))
        if kind == "wake-up delayed":
            self._delayed.append((self.time + self.chance.uniform(0.5, 5.0), session))
        elif kind == "wake-up repeated":
            for _ in range(2):
                self._run_worker(session)
        return True

    def _rivals(self) -> bool:
        """Two at one moment: the first has written and not committed when the second is seen to wait for it."""
        deeds = self.people.decisions()
        free = [hand for hand in self.webs if not hand.busy]
        if not deeds or len(free) < 2:
            return False
        first = self.chance.choice(deeds)
        assert first.decides is not None
        row = Approval.objects.select_related("call", "session").get(pk=first.decides[0])
        verdict = "deny" if first.name == "approve" else "approve"
        second = self.people.decide(row, verdict, self.people.actor("erin"))
        leader, follower = free[0], free[1]
        self.injector.hold_at, restart_due, self.injector.restart_due = (
            COMMIT_OF_DECIDE,
            self.injector.restart_due,
            False,
        )
        leader.session = follower.session = first.session
        leader.do(first.work)
        self.injector.hold_at, self.injector.restart_due = "", restart_due
        if not leader.held_at:
            self._ended(leader, first.name)
            self.oracle.asked(first.decides, done=leader.outcome[0] == "done")
            return True
        self._note("rival decision", COMMIT_OF_DECIDE, first.session)
        self.injector.restart_due = False
        follower.begin(second.work)
        self.place.until_blocked_by(leader.backend, lambda: follower.busy)
        leader.go_on()
        follower.until_rest()
        self.injector.restart_due = restart_due
        for hand, deed in ((leader, first), (follower, second)):
            self._ended(hand, deed.name)
            assert deed.decides is not None
            self.oracle.asked(deed.decides, done=hand.outcome[0] == "done")
        return True

    def _late(self) -> bool:
        """A tool that was given up answers after all, or somebody finds a receipt."""
        if self.scene.held:
            dispatch = sorted(self.scene.held, key=lambda one: self.scene.order.index(one))[0]
            effect = EffectRecord.objects.filter(dispatch_id=dispatch).select_related("session").first()
            self._note("late receipt", "a tool answers late", effect.session.session_id if effect else "")
            self._let_go(dispatch)
            return True
        deed = self.people.late_receipt()
        if deed is None:
            return False
        self._note("late receipt", "a person finds one", deed.session)
        self._person(deed)
        return True

    def _expire(self) -> bool:
        """Time passes the next deadline, and the sweep and a person both come for it."""
        approvals = Approval.objects.filter(tenant=self.people.tenant, state__in=("pending", "approved"))
        asked = Question.objects.filter(tenant=self.people.tenant, state="pending")
        rows: list[Approval | Question] = [
            *approvals.select_related("session").order_by(*BY_CALL),
            *asked.select_related("session").order_by(*BY_CALL),
        ]
        if not rows:
            return False
        first = min(rows, key=lambda row: (row.expires_at, row.session.created_at))
        self._note("expiry", "", first.session.session_id)
        self._shift((first.expires_at - clock.now()).total_seconds() + 0.5)
        if isinstance(first, Approval) and first.state == "pending" and self.chance.random() < 0.5:
            self._person(self.people.decide(first, "approve", self.people.anybody()))
        if self.chance.random() < 0.7:
            self._sweep()
        return True

    # --- children and the server -------------------------------------------------------------------------------------

    def _break_other(self, bells: list[Bell]) -> bool:
        kind = self.others[0]
        if kind == RESTART:
            self.injector.restart_due = True
            return False
        if not bells:
            return False
        bell = self.chance.choice(bells)
        session = _taken(bell)
        life = self._new_worker()
        name, at = self._name(session), self.chance.randint(1, 8)
        child = self.place.nursery.run(session, worker_name(life), clock.now(), at, kind)
        self._say(f"child {life} with {name}: {child.how} {child.point}")
        if child.how == "failed":
            raise Wrong(f"a child failed with session {name}")
        if child.how == "exited":
            self._end_life(life)
            return True
        self._note(kind, child.point, name)
        if child.how == "killed":
            self._end_life(life)
        else:
            self._stopped.append(child)
            self._lives_of[child.pid] = life
            if child.point.endswith(LOCKED):
                self.place.terminate(child.backend)
        return True

    def _continue_child(self, child: Ended) -> None:
        self._stopped.remove(child)
        ended = self.place.nursery.go_on(child.pid)
        self._say(f"child goes on from {child.point}: {ended.how}")
        if ended.how == "failed":
            raise Wrong("a child failed after it was stopped")
        self._end_life(self._lives_of.pop(child.pid))

    # --- the end -----------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Nothing breaks any more: two sweeps later nobody is stuck, then people end everything, and counts agree."""
        self.injector.muted = True
        while self._held:
            self._go_on(self._held[0])
        while self._stopped:
            self._continue_child(self._stopped[0])
        for dispatch in list(self.scene.held):
            self._let_go(dispatch)
        self._shift((self._latest - clock.now()).total_seconds())  # a clock that went back is put right
        self._look()
        began = clock.now()
        for _ in range(2):
            self._tick(SWEEP_SECONDS + 0.1)
            self._sweep()
            self._deliver_all()
            self._look()
        stuck = self.oracle.stuck(began)
        if stuck:
            raise Wrong(f"stuck after two sweeps: {', '.join(stuck)}")
        for hand in self.workers:
            self._died(hand)
        self._tick(200.0)
        self.people.willing = 0.3
        for _ in range(60):
            if self.oracle.is_over():
                break
            self._end_what_waits()
        self._look()
        faults = self.oracle.counts()
        if faults:
            raise Wrong("; ".join(faults[:5]))
        self.ended = self.oracle.endings()

    def _deliver_all(self) -> None:
        while bells := self._rung():
            for bell in bells:
                self._deliver(bell)

    def _end_what_waits(self) -> None:
        self.scene.failing.clear()
        for deed in self.people.deeds():
            if deed.name not in ("stop", "abandon", "continue", "submit", "pause", "revoke"):
                self._person(deed)
        self._deliver_all()
        for effect in EffectRecord.objects.filter(state__in=("outcome_unknown", "manual_review")).select_related(
            "session"
        ):
            self._person(self.people.settle(effect, self.people.anybody(), surely=True))
            if effect.tool == INWARD and effect.session.state != "failed":
                self._person(self.people.abandon(effect.session))
        for dispatch in list(self.scene.held):
            self._let_go(dispatch)
        self._deliver_all()
        for hand in self.workers:
            self._died(hand)
        self._tick(200.0)
        self._sweep()
        self._deliver_all()
        self._look()
