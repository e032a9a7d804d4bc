import { type Accepted, ButlerError, type ErrorCode, type SessionKey, type StopAnswer } from '#protocol';
import { UnavailableError } from '#platform';
import { childTurnId } from '#family';
import type { Coverage } from './coverage.js';
import type { Invariants } from './invariants.js';
import { demand, Violation } from './invariants/violation.js';
import type { Act, Plan, PlannedMessage } from './plan.js';
import type { SimulatedPod } from './simulated-pod.js';
import { type Work, spawnCallId } from './work.js';
import type { World } from './world.js';

/** What a client may be refused, by what it asks. Whoever is no user of the turn is refused anything else. */
const REFUSALS: Record<Act['kind'], readonly ErrorCode[]> = {
  post: ['turn_stopped', 'session_busy', 'queue_full', 'turn_mismatch'],
  edit: ['not_found', 'turn_ended', 'turn_mismatch'],
  stop: ['stale_generation', 'turn_mismatch'],
  retry: ['not_found', 'turn_ended', 'stale_generation', 'turn_stopped', 'turn_mismatch', 'queue_full'],
};
/** How long a client waits before it asks again, elsewhere, at most. */
const AGAIN_MS = 3_000;

/** What clients know of a message. */
interface Known {
  /** The highest generation that anybody was answered. */
  generation: number;
  edits: number;
  accepted: Accepted | null;
}

/** One act under way: nobody has answered it yet. */
interface Asking {
  act: Act;
  pod: string;
  content: string;
  generation: number | null;
}

/** Users and their clients: ask a pod, and ask another one when no answer comes. */
export class Clients {
  private readonly known: Known[];
  private readonly asking = new Set<Asking>();
  private left: number;

  constructor(
    private readonly plan: Plan,
    private readonly world: World,
    private readonly pods: () => readonly SimulatedPod[],
    private readonly invariants: Invariants,
    private readonly coverage: Coverage,
  ) {
    this.known = plan.messages.map(() => ({ generation: 1, edits: 0, accepted: null }));
    this.left = plan.acts.length;
    for (const act of plan.acts) world.after('world', act.atMs, `${act.by} is to ${act.kind}`, () => this.begin(act));
  }

  /** Whether all have been answered, or have given up. */
  get areDone(): boolean {
    return this.left === 0;
  }

  /** Messages that were answered as accepted. */
  accepted(): { account: string; turnId: string }[] {
    return this.plan.messages.filter((_, at) => this.known[at]!.accepted !== null);
  }

  /** Nobody at this pod will answer any more. */
  onDeath(pod: string): void {
    for (const asking of this.asking) if (asking.pod === pod) this.again(asking);
  }

  private begin(act: Act): void {
    const known = this.known[act.message]!;
    const { generation } = act;
    const content = contentOf(this.plan.messages[act.message]!.work, act.kind === 'edit' ? ++known.edits : 0);
    const named = generation === null ? null : Math.max(1, known.generation + generation);
    this.ask({ act, pod: '', content, generation: named });
  }

  private ask(asking: Asking): void {
    const { act } = asking;
    const pods = this.pods();
    const pod = pods[asking.pod === '' ? act.pod % pods.length : this.world.random.below(pods.length)];
    // All are on their way up.
    if (!pod) return this.again(asking);
    asking.pod = pod.name;
    this.asking.add(asking);
    this.world.note(pod.name, `is asked to ${act.kind} ${this.plan.messages[act.message]!.turnId} by ${act.by}`);
    this.call(pod, asking).then(
      () => this.answered(asking, 'done'),
      (error: unknown) => {
        if (!this.asking.has(asking)) return;
        if (error instanceof UnavailableError) this.again(asking);
        else if (error instanceof ButlerError && REFUSALS[act.kind].includes(error.code))
          this.refused(asking, error.code);
        else this.world.fail(error);
      },
    );
  }

  private refused(asking: Asking, code: ErrorCode): void {
    const { account, turnId } = this.plan.messages[asking.act.message]!;
    const isMet = code !== 'turn_mismatch' || asking.act.child !== null || this.invariants.hasHeardOf(account, turnId);
    if (!isMet)
      this.world.fail(new Violation('I12', `${account} is told that ${turnId} is taken, and it is not there`));
    this.answered(asking, code);
  }

  private again(asking: Asking): void {
    this.asking.delete(asking);
    if (asking.act.vanishes) this.left--;
    else {
      const ms = this.world.random.fraction() * AGAIN_MS;
      this.world.after('world', ms, 'a client asks again', () => this.ask({ ...asking, pod: 'another' }));
    }
  }

  private answered(asking: Asking, answer: string): void {
    if (!this.asking.delete(asking)) return;
    this.left--;
    this.coverage.count('answer', `${asking.act.kind}: ${answer}`);
  }

  private async call(pod: SimulatedPod, asking: Asking): Promise<void> {
    const { act, content, generation } = asking;
    const message = this.plan.messages[act.message]!;
    const { account, sessionId, turnId, mode } = message;
    const by = act.by === 'admin' ? 'root' : act.by;
    const named = { account, sessionId, turnId, by, isAdmin: act.by === 'admin' };
    switch (act.kind) {
      case 'post': {
        const said = { account, sessionId, turnId, initiator: 'ann', content, mode, metadata: null };
        const { accepted, replayed } = await pod.intake.postMessage(said);
        if (replayed) this.coverage.count('answer', 'post: replayed');
        return this.readAccepted(act, accepted);
      }
      case 'edit':
        return void (await pod.intake.editMessage({ ...named, content }));
      case 'stop': {
        const target = this.targetOf(message, act, generation);
        const answer = await pod.intake.stopTurn({ ...named, ...target, reason: null });
        return this.readStop({ account, sessionId: target.sessionId }, answer);
      }
      case 'retry': {
        const { accepted } = await pod.intake.retryTurn({ ...named, generation: generation ?? 1 });
        const known = this.known[act.message]!;
        known.generation = Math.max(known.generation, accepted.generation);
        demand(
          accepted.generation === (generation ?? 1) + 1,
          'I8',
          `a retry of ${generation} begins ${accepted.generation}`,
        );
      }
    }
  }

  /** Posted again, it gets the first answer again, edited or not [H2]. */
  private readAccepted({ message }: Act, accepted: Accepted): void {
    const known = this.known[message]!;
    known.accepted ??= accepted;
    const [first, now] = [known.accepted, accepted].map((each) => JSON.stringify(each));
    demand(first === now, 'I8', `a post was answered ${first}, and then ${now}`);
    const { account, turnId } = this.plan.messages[message]!;
    demand(this.invariants.hasAccepted(account, turnId), 'I3', `${turnId} was answered and is not in the ledger`);
  }

  private readStop(session: SessionKey, { turnId, generation, state, already }: StopAnswer): void {
    this.coverage.count('answer', `stop: ${state}${already ? ', already' : ''}`);
    const seen = this.invariants.find(session, turnId, generation);
    const stands = seen?.state === 'ended' || seen?.state === 'stop_requested';
    demand(stands, 'I5', `the stop of ${turnId}/${generation} was answered ${state}, and it is ${seen?.state}`);
    this.invariants.readStopAnswer(session.account, { sessionId: session.sessionId, turnId, generation });
  }

  private targetOf({ sessionId, turnId, work }: PlannedMessage, { child }: Act, generation: number | null) {
    if (child === null || work.do !== 'spawn') return { sessionId, turnId, generation };
    const nth = child % work.children.length;
    const childId = childTurnId({ turnId, generation: 1 }, spawnCallId(turnId, nth));
    return { sessionId: work.children[nth]!.sessionId, turnId: childId, generation: null };
  }
}

/** What a message says, as first accepted or after so many edits: no two say the same. */
function contentOf(work: Work, edit: number): string {
  return JSON.stringify(edit === 0 ? work : { ...work, edit });
}
