import type { Ref, SessionKey } from '#protocol';
import type { Clock, Randomness } from '#platform';
import type { LiveEvents } from '#event-ledger';
import { AgentError, type ModelReply, type ModelStep } from './agent.js';
import type { AttemptExit } from './attempt-exit.js';
import { pauseMs } from './growing-pause.js';
import type { StepRecorder } from './step-recorder.js';
import { TextStream } from './text-stream.js';
import { turnErrorOf } from './turn-end.js';

/** How often the work of a step is tried in one attempt. The pauses in between take 20 to 40 s together. */
const MODEL_TRIES_MAX = 10;
const PAUSE = { firstMs: 100, longestMs: 15_000 };

interface TriesDeps {
  clock: Clock;
  randomness: Randomness;
  live: LiveEvents;
  exit: AttemptExit;
  recorder: StepRecorder;
  /** Whether the turn may be left where the step stands: no tool call is open. */
  isBalanced: boolean;
  /** To be waited for before each further try, as before the first. @throws LeaveSignal */
  mayBegin(): Promise<void>;
}

/**
 * The work of one model step in one attempt: tried again, after a growing pause, while it fails in a way that may pass.
 *
 * Owns: the count of tries and the text of the present one. Does not own: what is recorded of the reply. A failed try is
 * told before the pause, and its text is void from then on. A pause ends at once with the attempt, and with a drain where
 * the turn may be left (I6).
 */
export class ModelTries {
  private nth = 1;
  private stream: TextStream;

  constructor(
    private readonly deps: TriesDeps,
    private readonly session: SessionKey,
    private readonly step: { turn: Ref; step: string; attempt: number },
  ) {
    this.stream = this.openStream();
  }

  get key(): string {
    return this.step.step;
  }

  /** What the present try has said. */
  get text(): TextStream {
    return this.stream;
  }

  /** @throws LeaveSignal; what the work rejects with, when it is not to be tried again */
  async reply(work: (step: ModelStep) => Promise<ModelReply>): Promise<ModelReply> {
    const { exit } = this.deps;
    for (;;) {
      const { stream, nth, key } = this;
      const say = (text: string): void => stream.say(text);
      const { attempt } = this.step;
      try {
        return await exit.race(begin(() => work({ key, attempt, try: nth, signal: exit.signal, say })));
      } catch (error) {
        const mayPass = error instanceof AgentError && error.turnError.retryable;
        if (!mayPass || nth >= MODEL_TRIES_MAX) throw error;
        await this.backOff(error);
      }
    }
  }

  private async backOff(error: AgentError): Promise<void> {
    const { clock, randomness, exit, recorder, isBalanced, mayBegin } = this.deps;
    const { stream: failed, nth } = this;
    // Whoever breaks the step off from here on finds nothing said.
    this.nth++;
    this.stream = this.openStream();
    await exit.race(failed.end());
    const retryInMs = Math.round(pauseMs(PAUSE, nth - 1, randomness));
    const { step, attempt } = this.step;
    const data = { step, attempt, try: nth, error: turnErrorOf(error), retryInMs };
    await exit.race(recorder.record([recorder.draft('model.failed', data)]));
    await exit.pause(clock, retryInMs, isBalanced);
    await mayBegin();
  }

  private openStream(): TextStream {
    const { clock, live, recorder } = this.deps;
    const sinks: ConstructorParameters<typeof TextStream>[1] = {
      delta: (delta) => live.delta(this.session, delta),
      store: (piece) => recorder.record([recorder.draft('model.text', piece)]),
    };
    return new TextStream(clock, sinks, { ...this.step, try: this.nth });
  }
}

/** Makes a promise even of a function that throws at once. */
async function begin<T>(work: () => Promise<T>): Promise<T> {
  return work();
}
